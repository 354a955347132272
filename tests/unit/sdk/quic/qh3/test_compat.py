from __future__ import annotations

import importlib
import sys

import pytest
from qh3.quic.connection import QuicConnection

from laps_sdk.errors import TransportError
from laps_sdk.quic.qh3 import compat


def test_the_installed_qh3_has_every_name() -> None:
    assert compat.missing_names() == []
    compat.check()


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(QuicConnection, "_drain_core")
    with pytest.raises(TransportError, match=r"it lacks QuicConnection\._drain_core\).*needs 2\.1"):
        compat.check()


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "version", lambda _: "2.2.0")
    with pytest.raises(TransportError, match=r"^qh3 2\.2\.0 is installed; .* needs 2\.1\.0$"):
        compat.check()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("laps_sdk.quic.qh3.compat", "laps_sdk.quic.qh3.engine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "qh3", None)
    with pytest.raises(TransportError, match=r'pip install -e "packages/laps-sdk\[turbo\]"'):
        importlib.import_module("laps_sdk.quic.qh3.engine")
