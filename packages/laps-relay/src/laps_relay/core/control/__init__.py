"""Sessions, namespaces, tracks and requests: what the relay decides for MoQT clients."""

from __future__ import annotations

from laps_relay.core.control.relay import EdgeRelay
from laps_relay.core.control.settings import EdgeSettings, SessionInfo

__all__ = ["EdgeRelay", "EdgeSettings", "SessionInfo"]
