"""Authorization: the question that the control plane asks before it acts for a session.

The control plane knows requests and names, and no keys. An authorizer knows tokens and keys, and no
tables. The forwarding plane does not ask the authorizer; the control plane programs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from laps_wire.moqt.session import AuthToken
from laps_wire.names import Namespace

__all__ = ["Action", "Authorizer", "Decision", "Grant"]


class Action(IntEnum):
    """What a token may allow. The numbers are those of draft-ietf-moq-c4m."""

    CLIENT_SETUP = 0
    SERVER_SETUP = 1
    PUBLISH_NAMESPACE = 2
    SUBSCRIBE_NAMESPACE = 3
    SUBSCRIBE = 4
    REQUEST_UPDATE = 5
    PUBLISH = 6
    FETCH = 7
    TRACK_STATUS = 8


class Decision(NamedTuple):
    """The answer of an authorizer about one request."""

    allowed: bool
    reason: str = ""
    """Why not; goes to the peer, so it holds no secret."""
    code: int = 0
    """REQUEST_ERROR code of a denial: UNAUTHORIZED, EXPIRED_AUTH_TOKEN, MALFORMED_AUTH_TOKEN."""
    expires: float | None = None
    """When the grant ends, on the clock of ``now``; live delivery stops then."""
    tenant: str = ""


@dataclass(slots=True, kw_only=True)
class Grant:
    """What a request was allowed to do, with all that is needed to decide again."""

    action: Action
    namespace: Namespace | None
    name: bytes | None
    tokens: tuple[AuthToken, ...]
    expires: float | None


class Authorizer(Protocol):
    """Decides about every request.

    ``session_tokens`` came in SETUP, ``tokens`` with the request; these replace the session's.
    """

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
        session_tokens: Sequence[AuthToken],
    ) -> Decision:
        """Decide about one action.

        ``name`` is None for actions on namespaces; ``namespace`` and ``name`` are None for
        CLIENT_SETUP.
        """
