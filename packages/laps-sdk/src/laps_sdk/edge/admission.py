"""Whether a session may make a request: rates, caps, and what the authorizer grants.

The authorizer decides about every request, those that the cache answers too. Each answer is kept as
a :class:`Grant` beside its request. When a grant ends, or the keys change, EdgeRelay asks again
with the same tokens. Tokens stay here: nothing that the relay sends upstream carries one
(moq-transport-18, 10.2.2).

The network's policy may deny tracks to all clients of this relay, whatever their tokens grant. It
is asked before the authorizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_sdk.edge.authorization import Action, Authorizer, Decision, Grant
from laps_sdk.edge.records import Client, Load, Record
from laps_sdk.edge.state import Due, State
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
from laps_wire.moqt.session import AuthToken
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Admission", "denial_code"]

_TRUSTED: Final = Decision(allowed=True)
"""Of a session with our own network: its clients were asked at their own relays."""
_RECEIVING: Final = frozenset((Action.SUBSCRIBE, Action.FETCH, Action.TRACK_STATUS))


class Admission:
    """Applies rates and caps, asks the authorizer, and keeps what it granted."""

    __slots__ = ("_authorizer", "_state", "against")

    def __init__(self, state: State, authorizer: Authorizer) -> None:
        self._state = state
        self._authorizer = authorizer
        self.against: Callable[[FullTrackName], str | None] | None = None
        """What policy has against a track for those who receive here."""

    # Rates and caps

    def overloaded(
        self, now: float, client: Client, name: Namespace | FullTrackName | None
    ) -> tuple[str, float | None] | None:
        """Take one request from the rate of a session, and check the length of a name.

        Returns None if the request may be made. Otherwise the reason, and after how many seconds
        another try makes sense.
        """
        if client.info.upstream:
            return None
        settings = self._state.settings
        # A time that lies before the last one takes nothing away.
        earned = max(0.0, now - client.credited) * settings.request_rate
        client.credit = min(client.credit + earned, settings.request_burst)
        client.credited = max(client.credited, now)
        if client.credit < 1:
            return "too many requests at once", (1 - client.credit) / settings.request_rate
        client.credit -= 1
        if name is not None and name.size > settings.name_bytes:
            return f"names are limited to {settings.name_bytes} bytes here", None
        return None

    def full(self, client: Client, load: Load) -> str | None:
        """Return the reason why a session may have no more of a kind; None if it may."""
        settings = self._state.settings
        caps = {
            Load.SUBSCRIPTIONS: settings.session_subscriptions,
            Load.PUBLISHES: settings.session_publishes,
            Load.NAMESPACES: settings.session_namespaces,
            Load.PREFIXES: settings.session_prefixes,
            Load.FETCHES: settings.session_fetches,
            Load.OFFERS: settings.session_offers,
        }
        if client.load[load] >= caps[load] and not client.info.upstream:
            return f"a session may have {caps[load]} {load.value}"
        if load in (Load.SUBSCRIPTIONS, Load.OFFERS):
            if self._state.subscriptions >= settings.max_subscriptions:
                return "the relay has as many subscriptions as it can"
        elif load is Load.NAMESPACES and len(self._state.offers) >= settings.max_namespaces:
            return "the relay has as many namespaces as it can"
        return None

    # The authorizer

    def decide(self, now: float, client: Client, grant: Grant) -> Decision:
        """Return the decision of policy and authorizer about a grant, as of ``now``."""
        if client.info.upstream:
            return _TRUSTED
        reason = self._policy(grant)
        if reason is not None:
            code = int(RequestErrorCode.UNAUTHORIZED)
            return Decision(allowed=False, reason=reason, code=code)
        decision = self._authorizer.authorize(
            now, grant.action, grant.namespace, grant.name, grant.tokens, client.tokens
        )
        if decision.allowed and decision.expires is not None and decision.expires <= now:
            code = int(RequestErrorCode.EXPIRED_AUTH_TOKEN)
            return Decision(allowed=False, reason="the token has expired", code=code)
        return decision

    def _policy(self, grant: Grant) -> str | None:
        namespace, name = grant.namespace, grant.name
        if (
            self.against is None
            or namespace is None
            or name is None
            or grant.action not in _RECEIVING
        ):
            return None
        return self.against(FullTrackName(namespace, name))

    def request(
        self,
        now: float,
        client: Client,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: tuple[AuthToken, ...],
    ) -> tuple[Grant, Decision]:
        """Make a grant for a new request and decide about it; return both."""
        grant = Grant(action=action, namespace=namespace, name=name, tokens=tokens, expires=None)
        decision = self.decide(now, client, grant)
        grant.expires = decision.expires
        return grant, decision

    def allow(
        self,
        now: float,
        client: Client,
        request_id: int,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: tuple[AuthToken, ...],
    ) -> Grant | None:
        """Decide about a request; reject it and return None if it is not allowed."""
        grant, decision = self.request(now, client, action, namespace, name, tokens)
        if decision.allowed:
            return grant
        self._state.reject(client, request_id, denial_code(decision), decision.reason)
        return None

    def setup(self, now: float, client: Client) -> bool:
        """Decide about a session after its SETUP; close it and return False if denied."""
        grant, decision = self.request(now, client, Action.CLIENT_SETUP, None, None, ())
        if decision.allowed:
            client.grant = grant
            self.keep(client, grant)
            return True
        self.refuse_session(client, decision)
        return False

    # Grants that stay

    def hold(self, record: Record) -> None:
        """Set the timer for the grant of a record, if the record has one."""
        if record.grant is not None:
            self.keep(record, record.grant)

    def keep(self, holder: Record | Client, grant: Grant) -> None:
        """Set the timer for the end of a grant, or cancel it if the grant has no end."""
        timers = self._state.timers
        if grant.expires is None:
            timers.cancel((Due.EXPIRY, holder))
        else:
            timers.set((Due.EXPIRY, holder), grant.expires)

    def renew(
        self, now: float, record: Record, update_id: int, tokens: tuple[AuthToken, ...]
    ) -> bool:
        """Decide about an update, and replace the grant of its request if it brings new tokens.

        Returns False if the update was rejected. The caller then ends the request as its kind
        demands.
        """
        grant = record.grant
        if grant is None:
            return True
        client = record.client
        asked, decision = self.request(
            now,
            client,
            Action.REQUEST_UPDATE,
            grant.namespace,
            grant.name,
            tokens or grant.tokens,
        )
        if decision.allowed and tokens:
            # New tokens replace the old ones: the request itself must stand on them too.
            asked, decision = self.request(
                now, client, grant.action, grant.namespace, grant.name, tokens
            )
            if decision.allowed:
                record.grant = asked
                self.keep(record, asked)
        if decision.allowed:
            return True
        self._state.reject(client, update_id, denial_code(decision), decision.reason)
        return False

    def refuse_session(self, client: Client, decision: Decision) -> None:
        """Close a session that the authorizer does not allow."""
        expired = denial_code(decision) is RequestErrorCode.EXPIRED_AUTH_TOKEN
        code = SessionCode.EXPIRED_AUTH_TOKEN if expired else SessionCode.UNAUTHORIZED
        self._state.command(client, client.wire.close, int(code), decision.reason)


def denial_code(decision: Decision) -> RequestErrorCode:
    """Return the REQUEST_ERROR code of a decision that denies."""
    try:
        code = RequestErrorCode(decision.code)
    except ValueError:
        return RequestErrorCode.UNAUTHORIZED
    # A decision without a code has 0.
    return code or RequestErrorCode.UNAUTHORIZED
