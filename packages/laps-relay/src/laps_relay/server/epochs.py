"""The boot epoch of a relay: higher at each start, also if the clock went back meanwhile.

Who comes with an epoch that is not higher than the last one is taken for an old copy of itself, and
refused (laps-2, 4.1). The time of the start in milliseconds is higher, unless the clock was set
back; so the last one is kept, in a file for each node::

    <state directory>/epoch-0000000100000001     1794914931467
"""

from __future__ import annotations

from pathlib import Path

from laps_relay.server.kept import keep
from laps_wire.nodeid import NodeId

__all__ = ["next_epoch"]

_MOST = (1 << 62) - 1


def next_epoch(state_dir: Path, node: NodeId, wall_ms: int) -> tuple[int, str | None]:
    """The epoch of this start, kept for the next; and why it could not be kept, if so.

    What is no number is written over: the clock alone decides then, as at a first start.
    """
    path = state_dir / f"epoch-{int(node):016x}"
    try:
        last = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        last = 0
    if not 0 <= last < _MOST:
        last = 0
    epoch = max(wall_ms, last + 1)
    return epoch, keep(path, f"{epoch}\n")
