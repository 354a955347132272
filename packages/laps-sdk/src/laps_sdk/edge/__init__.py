"""Sessions, namespaces, tracks and requests: what the relay decides for MoQT clients."""

from __future__ import annotations

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import EdgeSettings, SessionInfo

__all__ = ["EdgeRelay", "EdgeSettings", "SessionInfo"]
