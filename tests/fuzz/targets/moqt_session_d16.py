"""A server's session of draft 16: whatever arrives on its streams, it never raises."""

from __future__ import annotations

from laps_wire.moqt.versions import Draft

from . import _moqt_session


def one_input(data: bytes) -> None:
    _moqt_session.one_input(Draft.D16, data)


def seeds() -> list[bytes]:
    return _moqt_session.seeds(Draft.D16)
