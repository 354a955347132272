"""Another aioquic is noticed, whatever is different."""

from __future__ import annotations

import aioquic
import pytest
from aioquic.quic.connection import QuicConnection
from aioquic.quic.recovery import QuicPacketPacer
from aioquic.quic.stream import QuicStreamReceiver, QuicStreamSender

from laps_sdk.quic.aioquic.fast import selfcheck
from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.protection import Sealer


def test_this_aioquic_is_fine() -> None:
    assert selfcheck.fault() == ""


@pytest.mark.parametrize("version", ["1.6.0", "1.8.0", "2.0", ""])
def test_another_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(aioquic, "__version__", version)
    assert "the fast path knows 1.7.*" in selfcheck.fault()


def test_a_version_that_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(aioquic, "__version__")
    assert "aioquic unknown is installed" in selfcheck.fault()


def test_a_method_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(QuicConnection, "_write_stream_limits")
    assert selfcheck.fault() == "QuicConnection._write_stream_limits is gone"


def test_a_method_with_other_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(self: object, code: int) -> None:
        raise NotImplementedError

    monkeypatch.setattr(QuicStreamSender, "reset", reset)
    assert selfcheck.fault() == "QuicStreamSender.reset takes (code), not (error_code)"


def test_an_attribute_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    make = QuicPacketPacer.__init__

    def without(self: QuicPacketPacer, *, max_datagram_size: int) -> None:
        make(self, max_datagram_size=max_datagram_size)
        del self.bucket_time

    monkeypatch.setattr(QuicPacketPacer, "__init__", without)
    assert selfcheck.fault() == "QuicPacketPacer.bucket_time is gone"


def test_an_attribute_without_which_nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    make = QuicStreamReceiver.__init__

    def without(self: QuicStreamReceiver, stream_id: int | None, readable: bool) -> None:
        make(self, stream_id, readable)
        del self._buffer

    monkeypatch.setattr(QuicStreamReceiver, "__init__", without)
    assert selfcheck.fault() == "QuicStreamReceiver._buffer is gone"


def test_packets_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Sealer.seal

    def wrong(self: Sealer, first: int, cid: bytes, number: int, payloads: list[bytes]) -> object:
        return seal(self, first ^ 0x20, cid, number, payloads)

    monkeypatch.setattr(Sealer, "seal", wrong)
    assert "packets differ" in selfcheck.fault()


def test_data_that_is_read_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FastQuicConnection, "_receive_stream", lambda _self, _payload, _at, end: end
    )
    assert "FastQuicConnection did not read what was sent" in selfcheck.fault()


def test_acknowledgements_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    put = FastQuicConnection._put_ack

    def wrong(self: FastQuicConnection, now: float, *rest: object) -> object:
        return put(self, now + 0.5, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(FastQuicConnection, "_put_ack", wrong)
    assert "acknowledgements differ" in selfcheck.fault()


def test_acknowledgements_that_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FastQuicConnection, "_receive_ack", lambda _self, _payload, _at, end, _now: end
    )
    assert "FastQuicConnection did not take the acknowledgements" in selfcheck.fault()


def test_a_check_that_stumbles_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> bool:
        raise KeyError("surprise")

    monkeypatch.setattr(FastQuicConnection, "_limits_due", broken)
    assert selfcheck.fault() == "the self-check stopped: KeyError: 'surprise'"
