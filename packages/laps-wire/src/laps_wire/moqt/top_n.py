"""Top-N on the wire: how a subscriber asks for the tracks that rank highest (docs/spec/top-n.md).

::

    SETUP option 0x4C50   from a relay: it knows Top-N; from a client: the N of all its prefixes
    parameter 0x29        draft 16, SUBSCRIBE_NAMESPACE: the N of this prefix, a varint in bytes
    extension 0x0C        on objects: the value by which their track is ranked, larger first

Draft 18 has no room for parameters of our own, so there the N of the session holds.
"""

from __future__ import annotations

from typing import Final

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, RemoteError, StateError
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, first_value
from laps_wire.moqt.versions import Draft

__all__ = [
    "RANK_PROPERTY",
    "TOP_N_EXTENSIONS",
    "TOP_N_OPTION",
    "TOP_N_PARAMETER",
    "offered_top_n",
    "requested_top_n",
    "top_n_options",
    "top_n_parameter",
]

RANK_PROPERTY: Final = 0x0C
"""The object extension whose value ranks a track."""
TOP_N_PARAMETER: Final = 0x29
"""Draft 16: a parameter of SUBSCRIBE_NAMESPACE; its bytes are N as a varint."""
TOP_N_EXTENSIONS: Final = frozenset({TOP_N_PARAMETER})
"""For ``SessionConfig.extensions`` of a session of draft 16."""
TOP_N_OPTION: Final = 0x4C50
"""A setup option: from a relay that it knows Top-N; from a client the N of all its prefixes that
carry no parameter, 0 for none."""


def top_n_options(n: int = 0) -> KeyValues:
    """What SETUP says about Top-N, for ``SetupOptions.unknown``."""
    if n < 0:
        raise EncodeError(f"top_n {n}: wants 1 or more tracks")
    return (KeyValue(TOP_N_OPTION, n),)


def top_n_parameter(n: int, draft: Draft, relay: KeyValues) -> KeyValues:
    """What a request for one prefix says; ``relay`` is what the relay's SETUP said beside."""
    if n < 1:
        raise EncodeError(f"top_n {n}: wants 1 or more tracks")
    if draft is not Draft.D16:
        raise StateError(
            f"draft {int(draft)} has no top_n for a single prefix: use connect(..., top_n={n})"
        )
    if first_value(relay, TOP_N_OPTION) is None:
        raise StateError("the relay does not rank tracks: its SETUP does not say that it knows how")
    return (KeyValue(TOP_N_PARAMETER, draft.integers.encode(n)),)


def offered_top_n(unknown: KeyValues) -> int | None:
    """The N that a peer's SETUP asks for; None if it asks for none."""
    value = first_value(unknown, TOP_N_OPTION)
    return value if isinstance(value, int) and value > 0 else None


def requested_top_n(ignored: KeyValues, draft: Draft) -> int | None:
    """The N in the parameters of a request; None if there is none that can be read."""
    value = first_value(ignored, TOP_N_PARAMETER)
    if not isinstance(value, bytes):
        return None
    try:
        n = Reader(value, integers=draft.integers).varint("N")
    except (IncompleteError, RemoteError):
        return None
    return n or None
