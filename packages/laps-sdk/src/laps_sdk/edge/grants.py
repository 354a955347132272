"""Who may do what, and how long.

Every request is put to the authorizer, those that the cache answers too. What it allows is kept as
a :class:`Grant` beside the request: when the grant ends, or the keys change, the authorizer is
asked again with the same tokens, and what is allowed no longer is ended in its own way. Tokens stay
here: nothing that the relay sends upstream carries one (moq-transport-18, 10.2.2).

The network's policy may keep tracks from everybody at this relay, whatever their tokens say and
wherever the publisher is: it is asked first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_sdk.edge.authorization import Action, Authorizer, Decision
from laps_sdk.edge.codes import reset_code, shorten
from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.events import RequestDenied
from laps_sdk.edge.records import (
    Client,
    Deposit,
    FetchJob,
    Grant,
    Offer,
    Receiver,
    Record,
    Source,
    Watch,
)
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
from laps_wire.moqt.session.tokens import AuthToken
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Grants"]

_TRUSTED: Final = Decision(allowed=True)
"""Of a session with our own network: its clients were asked at their own relays."""
_RECEIVING: Final = frozenset((Action.SUBSCRIBE, Action.FETCH, Action.TRACK_STATUS))


class Grants:
    """Asks the authorizer, keeps its answers, and acts when they end."""

    __slots__ = ("_authorizer", "_context", "against")

    def __init__(self, context: Context, authorizer: Authorizer) -> None:
        self._context = context
        self._authorizer = authorizer
        self.against: Callable[[FullTrackName], str | None] | None = None
        """What policy has against a track for those who receive here."""

    # Asking

    def decide(self, now: float, client: Client, grant: Grant) -> Decision:
        """What the authorizer says about a grant now."""
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
        """Ask about something new."""
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
        """Ask about a request, and reject it if it is not allowed."""
        grant, decision = self.request(now, client, action, namespace, name, tokens)
        if decision.allowed:
            return grant
        self._context.reject(client, request_id, _code(decision), decision.reason)
        return None

    def setup(self, now: float, client: Client) -> bool:
        """Ask whether a session may be; close it if not."""
        grant, decision = self.request(now, client, Action.CLIENT_SETUP, None, None, ())
        if decision.allowed:
            client.grant = grant
            self._arm(client, grant)
            return True
        self._close(client, decision)
        return False

    # Keeping

    def hold(self, record: Record) -> None:
        """Watch over the grant of a record that stays."""
        if record.grant is not None:
            self._arm(record, record.grant)

    def _arm(self, holder: Record | Client, grant: Grant) -> None:
        timers = self._context.timers
        if grant.expires is None:
            timers.cancel((Due.EXPIRY, holder))
        else:
            timers.set((Due.EXPIRY, holder), grant.expires)

    def renew(
        self, now: float, record: Record, update_id: int, tokens: tuple[AuthToken, ...]
    ) -> bool:
        """An update came: see whether it may be made, and what new tokens change.

        False if it was rejected; whoever calls ends the request as its kind demands.
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
                self._arm(record, asked)
        if decision.allowed:
            return True
        self._context.reject(client, update_id, _code(decision), decision.reason)
        return False

    # Ending

    def check(self, now: float, holder: Record | Client) -> None:
        """A grant's time has come, or the keys have changed: ask again."""
        grant = holder.grant
        if grant is None:
            return
        client = holder if isinstance(holder, Client) else holder.client
        decision = self.decide(now, client, grant)
        if decision.allowed:
            grant.expires = decision.expires
            self._arm(holder, grant)
            return
        self._end(now, holder, decision)

    def check_all(self, now: float) -> None:
        """Ask again about everything."""
        for client in list(self._context.clients.values()):
            self.check(now, client)
            for record in list(client.requests.values()):
                # An end may have taken others with it.
                if client.requests.get(record.request_id or 0) is record and not client.closed:
                    self.check(now, record)

    def _end(self, now: float, holder: Record | Client, decision: Decision) -> None:
        context = self._context
        if isinstance(holder, Client):
            self._close(holder, decision)
            return
        client = holder.client
        code = _code(decision)
        expired = code is RequestErrorCode.EXPIRED_AUTH_TOKEN
        reset = reset_code(client.draft, "EXPIRED_AUTH_TOKEN")
        reason = shorten(decision.reason)
        context.events.append(
            RequestDenied(
                session=client.id,
                request_id=-1 if holder.request_id is None else holder.request_id,
                kind=None,
                code=int(code),
                reason=reason,
            )
        )
        match holder:
            case Receiver():
                status = "EXPIRED" if expired else "UNAUTHORIZED"
                context.receivers.end(now, holder, status, reason, reset=reset, code=code)
            case Source():
                context.sources.drop(now, holder, reset, reason, status="UNAUTHORIZED")
            case Deposit():
                context.intakes.drop(now, holder, reset)
            case Offer():
                # Draft 16 says why with a request error code, draft 18 resets the stream.
                number = int(code) if client.draft is Draft.D16 else reset
                context.spaces.revoke(now, holder, number, reason)
            case Watch():
                context.spaces.dismiss(now, holder, reset, reason)
            case FetchJob():
                context.fetches.fail(now, holder, code, reason, reset=reset)
            case _:
                pass

    def _close(self, client: Client, decision: Decision) -> None:
        expired = _code(decision) is RequestErrorCode.EXPIRED_AUTH_TOKEN
        code = SessionCode.EXPIRED_AUTH_TOKEN if expired else SessionCode.UNAUTHORIZED
        self._context.tell(client, client.wire.close, int(code), decision.reason)


def _code(decision: Decision) -> RequestErrorCode:
    try:
        code = RequestErrorCode(decision.code)
    except ValueError:
        return RequestErrorCode.UNAUTHORIZED
    # 0 is what a decision says that names no code.
    return code or RequestErrorCode.UNAUTHORIZED
