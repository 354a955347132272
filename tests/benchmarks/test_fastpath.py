"""The benchmark of the fast path measures something in every case, with both classes."""

from __future__ import annotations

import fastpath
import pytest
from aioquic.quic.connection import QuicConnection

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection


@pytest.mark.parametrize("kind", [QuicConnection, FastQuicConnection])
@pytest.mark.parametrize("case", fastpath.CASES)
def test_every_case_moves_bytes(case: str, kind: type[QuicConnection]) -> None:
    talk = fastpath.Conversation(kind)
    more = fastpath.CASES[case](talk)
    for _ in range(10):
        more()
        talk.exchange()
    assert talk.received > 1000
    assert talk.packets > 1
