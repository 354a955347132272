"""Sessions, namespaces, tracks and requests: what the relay decides for MoQT clients.

``server`` and ``port`` join the room with a UDP socket; all other modules do no I/O.
"""

from __future__ import annotations

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import EdgeSettings, SessionInfo

__all__ = ["EdgeRelay", "EdgeSettings", "SessionInfo"]
