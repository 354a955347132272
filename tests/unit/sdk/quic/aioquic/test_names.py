from __future__ import annotations

import pytest
from aioquic.quic.connection import QuicConnection
from aioquic.quic.recovery import QuicPacketRecovery

from laps_sdk.errors import TransportError
from laps_sdk.quic.aioquic import names


def test_the_installed_aioquic_has_every_name() -> None:
    assert names.missing_names() == []
    names.check()


def test_every_name_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(QuicConnection, "_flush_builder")
    monkeypatch.delattr(QuicPacketRecovery, "congestion_window")
    with pytest.raises(TransportError) as caught:
        names.check()
    text = str(caught.value)
    assert text.startswith("aioquic 1.7")
    assert "lacks QuicConnection._flush_builder, QuicPacketRecovery.congestion_window;" in text
    assert text.endswith("needs aioquic>=1.7,<1.8")
