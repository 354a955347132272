"""SETUP: what ours says, and what the peer's may say (moq-transport-16, 9.3; -18, 10.3).

PATH and AUTHORITY are how a client over native QUIC says which URI it means; WebTransport says it
in its own request::

    moqt://authority/path?query
           AUTHORITY '--PATH--'

So both are refused from a server and over WebTransport. Their form is checked as they are read
(:mod:`laps_wire.moqt.setup`); whether this path or authority is served here is for the application
to say.
"""

from __future__ import annotations

from dataclasses import replace

from laps_wire.errors import RemoteError, StateError
from laps_wire.moqt.errors import InvalidAuthority, InvalidPath
from laps_wire.moqt.session.config import Role, SessionConfig, Transport
from laps_wire.moqt.session.tokens import OwnTokens
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["check_options", "own_options"]


def own_options(config: SessionConfig) -> SetupOptions:
    """What our SETUP says; StateError if the peer would have to close the session for it."""
    limits = config.limits
    options = replace(
        config.options,
        max_request_id=2 * limits.max_requests if config.draft is Draft.D16 else None,
        max_auth_token_cache_size=limits.max_token_cache or None,
    )
    try:
        check_options(options, config.role, config.transport)
        OwnTokens(options.authorization_tokens)
    except RemoteError as error:
        raise StateError(f"our own SETUP: {error}") from error
    return options


def check_options(options: SetupOptions, sender: Role, transport: Transport) -> None:
    """Refuse a PATH or AUTHORITY that ``sender`` may not send."""
    if sender is Role.SERVER:
        where = "from a server"
    elif transport is Transport.WEBTRANSPORT:
        where = "over WebTransport"
    else:
        return
    if options.path is not None:
        raise InvalidPath(f"PATH {where}")
    if options.authority is not None:
        raise InvalidAuthority(f"AUTHORITY {where}")
