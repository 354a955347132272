"""The ``laps-2`` dialect: its messages as a session sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from laps_wire.peering import laps2
from laps_wire.peering.laps2 import Bases
from laps_wire.peering.laps2.sns import FIRST_SNS_ID
from laps_wire.peering.session import events
from laps_wire.peering.session.dialect import (
    SessionConfig,
    SnsChange,
    SnsDescription,
    SnsEnd,
    SnsOperation,
)
from laps_wire.peering.session.handshake import Laps2Handshake
from laps_wire.peering.session.sns import SnsDiff, SnsRejection, SnsSet
from laps_wire.peering.session.state import Kind, Shape

__all__ = ["LAPS2", "Laps2Dialect"]

_KINDS: Final[dict[type, Kind]] = {
    laps2.Connect: Kind.CONNECT,
    laps2.Challenge: Kind.CHALLENGE,
    laps2.Proof: Kind.PROOF,
    laps2.ConnectResponse: Kind.RESPONSE,
    laps2.ConnectRefused: Kind.REFUSED,
    laps2.ControlLatch: Kind.LATCH,
    laps2.Keepalive: Kind.KEEPALIVE,
    laps2.Drain: Kind.DRAIN,
    laps2.Stay: Kind.STAY,
    laps2.NodeAdvertise: Kind.NODE,
    laps2.NodeWithdraw: Kind.NODE,
    laps2.AnnounceAdvertise: Kind.ANNOUNCE,
    laps2.AnnounceWithdraw: Kind.ANNOUNCE,
    laps2.SubscribeAdvertise: Kind.SUBSCRIBE,
    laps2.SubscribeWithdraw: Kind.SUBSCRIBE,
    laps2.SubscribeResponse: Kind.SUBSCRIBE_RESPONSE,
    laps2.SyncRequest: Kind.SYNC_REQUEST,
    laps2.SyncBegin: Kind.SYNC,
    laps2.SyncEnd: Kind.SYNC,
    laps2.SnsAdvertise: Kind.SNS,
    laps2.SnsUpdate: Kind.SNS,
    laps2.SnsWithdraw: Kind.SNS,
    laps2.SnsRefused: Kind.SNS_REFUSED,
    laps2.FetchRequest: Kind.FETCH,
    laps2.FetchResponse: Kind.FETCH,
    laps2.FetchCancel: Kind.FETCH,
    laps2.Probe: Kind.PROBE,
    laps2.ProbeResponse: Kind.PROBE,
    laps2.UnknownMessage: Kind.IGNORED,
}

_EVENTS: Final[dict[type, Callable[[Any], events.Event]]] = {
    laps2.ConnectRefused: lambda m: events.Refused(
        code=m.code, reason=m.reason, retry_after_ms=m.retry_after_ms, redirect=m.redirect
    ),
    laps2.NodeAdvertise: lambda m: events.NodesAdvertised(nodes=m.nodes),
    laps2.NodeWithdraw: lambda m: events.NodesWithdrawn(nodes=m.nodes),
    laps2.AnnounceAdvertise: lambda m: events.AnnouncesAdvertised(announces=m.announces),
    laps2.AnnounceWithdraw: lambda m: events.AnnouncesWithdrawn(announces=m.announces),
    laps2.SubscribeAdvertise: lambda m: events.SubscribesAdvertised(subscribes=m.subscribes),
    laps2.SubscribeWithdraw: lambda m: events.SubscribesWithdrawn(subscribes=m.subscribes),
    laps2.SubscribeResponse: lambda m: events.SubscribeAnswered(response=m),
    laps2.SyncRequest: lambda m: events.SyncRequested(bases=m.bases),
    laps2.SyncBegin: lambda m: events.SyncBegan(bases=m.bases),
    laps2.SyncEnd: lambda m: events.SyncEnded(bases=m.bases),
    laps2.SnsRefused: lambda m: events.SnsRefusedByPeer(
        sns_id=m.sns_id, version=m.set_version, code=m.code, targets=m.targets
    ),
    laps2.FetchRequest: lambda m: events.FetchSaid(message=m),
    laps2.FetchResponse: lambda m: events.FetchSaid(message=m),
    laps2.FetchCancel: lambda m: events.FetchSaid(message=m),
    laps2.Probe: lambda m: events.ProbeReceived(probe=m),
    laps2.ProbeResponse: lambda m: events.ProbeAnswered(response=m),
}


class Laps2Dialect:
    """Our own protocol, complete (docs/spec/laps-2.md)."""

    alpn = laps2.ALPN
    shape = Shape.PROVED
    single_stream = False
    single_messages = False
    checks_types = True
    first_sns_id = FIRST_SNS_ID
    ordered_sns = True

    def handshake(self, config: SessionConfig) -> Laps2Handshake:
        """Begin a handshake."""
        return Laps2Handshake(config)

    def decode(self, data: bytes, pos: int, max_size: int) -> tuple[laps2.Incoming, int]:
        """The message at ``pos`` of a stream's bytes, and the position after it."""
        return laps2.decode(data, pos=pos, max_size=max_size)

    def encode(self, message: laps2.Incoming, max_size: int) -> bytes:
        """A message as bytes."""
        return laps2.encode(message, max_size=max_size)

    def kind(self, message: Any) -> Kind | None:
        """What a message is."""
        return _KINDS.get(type(message))

    def event(self, now: float, message: Any) -> events.Event | None:
        """What to tell the application."""
        make = _EVENTS.get(type(message))
        if make is not None:
            return make(message)
        if isinstance(message, laps2.Drain):
            return events.Draining(
                deadline=now + message.deadline_ms / 1000,
                reason=message.reason,
                alternates=message.alternates,
            )
        return events.Staying() if isinstance(message, laps2.Stay) else None

    # The session's own messages

    def refusal(
        self, code: int, reason: str, retry_after_ms: int, redirect: tuple[str, ...]
    ) -> laps2.ConnectRefused:
        """CONNECT_REFUSED."""
        return laps2.ConnectRefused(code, reason, retry_after_ms, redirect)

    def keepalive(self) -> laps2.Keepalive:
        """KEEPALIVE."""
        return laps2.Keepalive()

    def latch(self, generation: int) -> laps2.ControlLatch:
        """CONTROL_LATCH."""
        return laps2.ControlLatch(generation)

    def generation(self, message: Any) -> int | None:
        """The generation of a CONTROL_LATCH; ``None`` for any other message."""
        return message.generation if isinstance(message, laps2.ControlLatch) else None

    def drain(self, seconds: float, reason: str, alternates: tuple[str, ...]) -> laps2.Drain:
        """DRAIN."""
        return laps2.Drain(max(0, round(seconds * 1000)), reason, alternates)

    def stay(self) -> laps2.Stay:
        """STAY."""
        return laps2.Stay()

    def sync(self, bases: Bases, *, begin: bool) -> laps2.SyncBegin | laps2.SyncEnd:
        """SYNC_BEGIN or SYNC_END."""
        return laps2.SyncBegin(bases) if begin else laps2.SyncEnd(bases)

    # Subscriber node sets

    def read_sns(self, message: Any) -> Sequence[SnsOperation]:
        """What a message about sets means."""
        if isinstance(message, laps2.SnsAdvertise):
            return (
                SnsDescription(
                    message.sns_id,
                    message.set_version,
                    message.targets,
                    message.hops,
                    message.scope,
                ),
            )
        if isinstance(message, laps2.SnsUpdate):
            return (SnsChange(message.sns_id, message.set_version, message.add, message.remove),)
        return tuple(SnsEnd(sns_id) for sns_id in message.sns_ids)

    def write_sns(
        self, steps: Sequence[SnsDiff], now: SnsSet, *, whole: bool
    ) -> list[laps2.Message]:
        """The messages that describe or change a set, one for each step."""
        messages: list[laps2.Message] = [
            laps2.SnsUpdate(step.sns_id, step.version, step.added, step.removed) for step in steps
        ]
        if whole:
            first = steps[0]
            messages[0] = laps2.SnsAdvertise(
                first.sns_id,
                first.version,
                now.hops,
                first.added,
                laps2.scope_parameters(now.scope),
            )
        return messages

    def write_sns_end(self, sns_id: int) -> laps2.SnsWithdraw:
        """SNS_WITHDRAW."""
        return laps2.SnsWithdraw((sns_id,))

    def write_sns_refusal(self, rejection: SnsRejection) -> laps2.SnsRefused:
        """SNS_REFUSED."""
        return laps2.SnsRefused(
            rejection.sns_id, rejection.version, rejection.code, rejection.targets
        )


LAPS2: Final = Laps2Dialect()
"""The dialect that ALPN ``laps-2`` chooses."""
