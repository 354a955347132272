"""The same bytes in other chunks: events and faults must not change.

The first byte chooses the kind of stream and the draft, the second how the rest is cut.
"""

from __future__ import annotations

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.data import DataEvent, FetchParser, SubgroupParser
from laps_wire.moqt.versions import Draft

from . import moqt_fetch, moqt_subgroup_d16

_FETCH = 0x10
_D18 = 0x01


def _run(kind: int, chunks: list[bytes]) -> tuple[list[object], str]:
    draft = Draft.D18 if kind & _D18 else Draft.D16
    parser: SubgroupParser | FetchParser = SubgroupParser(draft)
    if kind & _FETCH:
        draft, order, range_length = moqt_fetch.setting(bytes([kind]))
        parser = FetchParser(draft, order, range_length=range_length)
    events: list[DataEvent] = []
    fault = ""
    try:
        for chunk in chunks:
            parser.feed(chunk, events)
        parser.finish()
    except (IncompleteError, RemoteError) as error:
        fault = type(error).__name__
    joined: list[object] = []
    for event in events:
        piece = bytes(event) if isinstance(event, memoryview) else event
        if isinstance(piece, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined, fault


def one_input(data: bytes) -> None:
    """Feed the bytes at once, in equal chunks, and one by one."""
    if len(data) < 2:
        return
    kind, step, body = data[0], data[1] % 97 + 2, data[2:]
    whole = _run(kind, [body])
    for size in (step, 1):
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        if _run(kind, chunks) != whole:
            raise AssertionError(f"chunks of {size} change {body.hex()}")


def seeds() -> list[bytes]:
    """A few streams."""
    out = [
        bytes([_D18 * (draft >= Draft.D18), 3]) + stream
        for draft in Draft
        for stream in moqt_subgroup_d16.streams(draft)
    ]
    # Without the two bytes of the FETCH_HEADER: the parser starts behind it.
    return out + [bytes([_FETCH | seed[0], 5]) + seed[3:] for seed in moqt_fetch.seeds()]
