"""SETUP: what ours says, and what the peer's may say (moq-transport-16, 9.3; -18, 10.3).

PATH and AUTHORITY are how a client over native QUIC says which URI it means; WebTransport says it
in its own request. So both are refused from a server and over WebTransport, and both must have the
form that RFC 3986 gives them::

    moqt://authority/path?query
           AUTHORITY '--PATH--'

Whether the path or authority is one that is served here is the application's to say.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from laps_wire.errors import RemoteError, StateError
from laps_wire.moqt.errors import (
    InvalidAuthority,
    InvalidPath,
    MalformedAuthority,
    MalformedPath,
)
from laps_wire.moqt.session.config import Role, SessionConfig, Transport
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["check_options", "own_options"]

_NAME: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
"""unreserved, sub-delims or percent-encoded (RFC 3986, 2)."""
_PCHAR: Final = rf"(?:{_NAME}|[:@])"
_PATH: Final = re.compile(rf"(?:/{_PCHAR}*)*(?:\?(?:{_PCHAR}|[/?])*)?")
_AUTHORITY: Final = re.compile(
    rf"(?:(?:{_NAME}|:)*@)?(?:\[[0-9A-Fa-f:.]+\]|\[v[0-9A-Fa-f]+\.(?:{_NAME}|:)+\]|{_NAME}+)"
    r"(?::[0-9]*)?"
)


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
    except RemoteError as error:
        raise StateError(f"our own SETUP: {error}") from error
    return options


def check_options(options: SetupOptions, sender: Role, transport: Transport) -> None:
    """Refuse a PATH or AUTHORITY that ``sender`` may not send, or that has the wrong form."""
    if sender is Role.SERVER:
        where = "from a server"
    elif transport is Transport.WEBTRANSPORT:
        where = "over WebTransport"
    else:
        where = ""
    if options.path is not None:
        if where:
            raise InvalidPath(f"PATH {where}")
        if _PATH.fullmatch(options.path) is None:
            raise MalformedPath(f"PATH {options.path[:64]!a} is not a path and query of a URI")
    if options.authority is not None:
        if where:
            raise InvalidAuthority(f"AUTHORITY {where}")
        if _AUTHORITY.fullmatch(options.authority) is None:
            raise MalformedAuthority(
                f"AUTHORITY {options.authority[:64]!a} is not the authority of a URI"
            )
