"""The composition root: a relay put together from its configuration."""

from laps_relay.server.parts import StartError, admin_token, auth_settings
from laps_relay.server.relay_app import RelayApp

__all__ = ["RelayApp", "StartError", "admin_token", "auth_settings"]
