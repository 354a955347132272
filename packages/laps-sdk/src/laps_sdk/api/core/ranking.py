"""Top-N: how a client asks for the tracks that rank highest, and how a publisher ranks its own.

::

    SETUP option 0x4C50   from a relay: it knows Top-N; from a client: the N of all its prefixes
    parameter 0x29        draft 16, SUBSCRIBE_NAMESPACE: the N of this prefix, a varint in bytes
    extension 0x0C        on objects: the value by which their track is ranked, larger first

Draft 18 has no room for parameters of our own, so there the N of the session holds.
"""

from __future__ import annotations

from typing import Final

from laps_wire.errors import EncodeError, StateError
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, first_value
from laps_wire.moqt.versions import Draft

__all__ = [
    "RANK_PROPERTY",
    "TOP_N_EXTENSIONS",
    "TOP_N_OPTION",
    "TOP_N_PARAMETER",
    "top_n_options",
    "top_n_parameter",
]

RANK_PROPERTY: Final = 0x0C
TOP_N_PARAMETER: Final = 0x29
TOP_N_OPTION: Final = 0x4C50
TOP_N_EXTENSIONS: Final = frozenset({TOP_N_PARAMETER})
"""Parameters that a session of draft 16 must know."""


def top_n_options(n: int | None) -> KeyValues:
    """What a client's SETUP says."""
    if n is not None and n < 1:
        raise EncodeError(f"top_n {n}: wants 1 or more tracks")
    return () if n is None else (KeyValue(TOP_N_OPTION, n),)


def top_n_parameter(n: int | None, draft: Draft, relay: KeyValues) -> KeyValues:
    """What a request for one prefix says; ``relay`` is what the relay's SETUP said beside."""
    if n is None:
        return ()
    if n < 1:
        raise EncodeError(f"top_n {n}: wants 1 or more tracks")
    if draft is not Draft.D16:
        raise StateError(
            f"draft {int(draft)} has no top_n for a single prefix: use connect(..., top_n={n})"
        )
    if first_value(relay, TOP_N_OPTION) is None:
        raise StateError("the relay does not rank tracks: its SETUP does not say that it knows how")
    return (KeyValue(TOP_N_PARAMETER, draft.integers.encode(n)),)
