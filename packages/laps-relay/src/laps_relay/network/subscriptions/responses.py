"""Answers to subscribes on their way back, hop by hop (laps-2, 5.3).

::

    s-relay  <----  relay  <----  relay  <----  o-relay
             over the session on which each of them heard the subscribe with that stamp
"""

from __future__ import annotations

from laps_relay.network.flood.floods import SubscribeTable
from laps_wire.peering.laps2 import SubscribeResponse

__all__ = ["way_back"]


def way_back(table: SubscribeTable, session: int, response: SubscribeResponse) -> int | None:
    """The session over which a response that came on ``session`` goes on; None: it is dropped.

    It is dropped if the subscribe is not known, or is known with another stamp.
    """
    entry = table.get(response.identity)
    if entry is None or entry.stamp != response.stamp:
        return None
    back = table.heard_on(response.identity)
    return None if back == session else back
