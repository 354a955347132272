"""An Edge relay and its clients in memory, with virtual time: the control plane alone.

::

    net = EdgeNet()
    publisher = net.connect(Draft.D16)
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()                       everything arrives, and what it leads to
    net.advance(5.0)                   time passes; timers go off when they are due

A :class:`Peer` is a client: a sans-IO session that the test commands. Its other end belongs to the
relay. What the relay's end has to send goes out only if bytes came for it or the relay called it
dirty, as in the real shell: a command that was not told of shows as an answer that never comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.reports import PlaybackReports
from laps_sdk.edge.settings import EdgeSettings, SessionInfo
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import AuthToken, Event, RequestReceived, Session, Terminated
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.top_n import TOP_N_EXTENSIONS, top_n_options
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Pair
from testkit.recording_plane import NullEgress, RecordingPlane

__all__ = ["DRAFTS", "NAMESPACE", "TRACK", "EdgeNet", "OpenDoor", "Peer", "RuleBook", "track_of"]

DRAFTS = (Draft.D16, Draft.D18)
NAMESPACE = Namespace.of(b"example.net", b"team2")
TRACK = FullTrackName(NAMESPACE, b"report")

E = TypeVar("E")


def track_of(name: str, *fields: bytes) -> FullTrackName:
    """A track in :data:`NAMESPACE`, or below it."""
    return FullTrackName(Namespace(NAMESPACE.fields + fields), name.encode())


class OpenDoor:
    """Allows everything."""

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
        session_tokens: Sequence[AuthToken],
    ) -> Decision:
        return Decision(allowed=True)


class RuleBook:
    """Allows what a rule allows; a test changes the rules as it goes, and sees what was asked."""

    def __init__(self) -> None:
        self.rules: dict[Action, Decision] = {}
        """What is not here is allowed."""
        self.tokens: dict[bytes, Decision] = {}
        """By the value of a token of the request; these go first."""
        self.asked: list[tuple[Action, Namespace | None, bytes | None]] = []

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
        session_tokens: Sequence[AuthToken],
    ) -> Decision:
        self.asked.append((action, namespace, name))
        for token in [*tokens, *session_tokens]:
            if token.value in self.tokens:
                return self.tokens[token.value]
        return self.rules.get(action, Decision(allowed=True))


class Peer:
    """A client of the relay."""

    def __init__(self, session_id: int, pair: Pair, info: SessionInfo) -> None:
        self.id = session_id
        self.pair = pair
        self.info = info
        self.gone = False
        self.request = -1
        """The request that the net made for it, if it made one."""

    @property
    def draft(self) -> Draft:
        return self.info.draft

    @property
    def session(self) -> Session:
        """The client's end: for commands."""
        return self.pair.client.session

    @property
    def wire(self) -> Session:
        """The relay's end."""
        return self.pair.server.session

    @property
    def events(self) -> list[Event]:
        """What the client was told so far."""
        return self.pair.client.events

    def take(self, kind: type[E]) -> list[E]:
        """The events of one kind since the last call for it, oldest first."""
        found: list[E] = [event for event in self.events if isinstance(event, kind)]
        self.pair.client.events = [event for event in self.events if not isinstance(event, kind)]
        return found

    def one(self, kind: type[E]) -> E:
        """The only event of a kind since the last call."""
        (event,) = self.take(kind)
        return event


class EdgeNet:
    """A relay, its clients, and the time."""

    def __init__(
        self,
        *,
        settings: EdgeSettings | None = None,
        authorizer: OpenDoor | RuleBook | None = None,
        plane: RecordingPlane | None = None,
        desk: PlaybackReports | None = None,
    ) -> None:
        self.now = 100.0
        self.plane = plane or RecordingPlane()
        programmed: ForwardingPlane = self.plane
        self.relay = EdgeRelay(
            programmed, authorizer or OpenDoor(), settings or EdgeSettings(), desk
        )
        self.peers: dict[int, Peer] = {}
        self.log: list[RelayEvent] = []
        """All events of the relay."""
        self._next = 1

    def connect(
        self,
        draft: Draft,
        *,
        options: SetupOptions | None = None,
        settle: bool = True,
        **client: Any,
    ) -> Peer:
        """A new client; ``client`` goes to its session's configuration."""
        server: dict[str, Any] = {"options": SetupOptions(unknown=top_n_options())}
        if draft is Draft.D16:
            server["extensions"] = TOP_N_EXTENSIONS
        if options is not None:
            client["options"] = options
        pair = Pair(draft, client=client, server=server)
        info = SessionInfo(peer_address="127.0.0.1:1", draft=draft)
        peer = Peer(self._next, pair, info)
        self._next += 1
        self.peers[peer.id] = peer
        self.relay.add_session(self.now, peer.id, pair.server.session, NullEgress(), info)
        if settle:
            self.settle()
        return peer

    # Clients with a purpose

    def publisher(
        self,
        draft: Draft,
        track: FullTrackName = TRACK,
        *,
        alias: int = 5,
        parameters: Parameters = NO_PARAMETERS,
        properties: KeyValues = (),
    ) -> Peer:
        """A client that has sent PUBLISH."""
        peer = self.connect(draft)
        peer.request = peer.session.publish(track, alias, parameters, properties)
        self.settle()
        return peer

    def announcer(self, draft: Draft, namespace: Namespace = NAMESPACE) -> Peer:
        """A client that has published a namespace; see :meth:`answer`."""
        peer = self.connect(draft)
        peer.request = peer.session.publish_namespace(namespace)
        self.settle()
        return peer

    def subscriber(
        self,
        draft: Draft,
        track: FullTrackName = TRACK,
        parameters: Parameters = NO_PARAMETERS,
    ) -> Peer:
        """A client that has sent SUBSCRIBE."""
        peer = self.connect(draft)
        peer.request = peer.session.subscribe(track, parameters)
        self.settle()
        return peer

    def answer(
        self,
        peer: Peer,
        *,
        alias: int = 77,
        parameters: Parameters = NO_PARAMETERS,
        properties: KeyValues = (),
    ) -> int:
        """A publisher says SUBSCRIBE_OK to the relay's SUBSCRIBE; gives its request id."""
        event = peer.one(RequestReceived)
        peer.session.accept_subscribe(event.request_id, alias, parameters, properties)
        self.settle()
        return event.request_id

    # Everybody

    def settle(self) -> None:
        """Carry everything to where it goes, until nothing moves."""
        while self._turn():
            pass
        self.log += self.relay.poll_events()

    def _turn(self) -> bool:
        moved = False
        self.relay.handle_notices(self.now)
        for peer in list(self.peers.values()):
            client, server = peer.pair.client, peer.pair.server
            client.transmit(server)
            if server.inbox or server.closing is not None:
                moved = True
                server.receive_all()
                self._events(peer)
                server.transmit(client)
            if client.inbox or client.closing is not None:
                moved = True
                client.receive_all()
                client.take_events()
                client.transmit(server)
        for session in self.relay.poll_dirty():
            peer = self.peers[session]
            moved = True
            self._events(peer)
            peer.pair.server.transmit(peer.pair.client)
        return moved

    def _events(self, peer: Peer) -> None:
        """Hand the events of the relay's end to the relay; the last one ends the connection."""
        for event in peer.pair.server.take_events():
            self.relay.handle_session_event(self.now, peer.id, event)
            if isinstance(event, Terminated):
                peer.pair.server.transmit(peer.pair.client)
                self._remove(peer)

    def _remove(self, peer: Peer) -> None:
        peer.gone = True
        self.relay.remove_session(self.now, peer.id)
        # What is in flight to the client still arrives.
        client = peer.pair.client
        client.receive_all()
        client.take_events()
        del self.peers[peer.id]

    def leave(self, peer: Peer) -> None:
        """A client closes its session."""
        peer.session.close()
        self.settle()

    def lose(self, peer: Peer) -> None:
        """A client vanishes: the transport gives its connection up."""
        peer.wire.receive_connection_lost(0, "timed out")
        self._events(peer)
        self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass, one timer after the other."""
        until = self.now + seconds
        while True:
            when = self.relay.poll_timeout()
            if when is None or when > until:
                break
            self.now = max(self.now, when)
            self.relay.handle_timeout(self.now)
            self.settle()
        self.now = until

    def notify(self, *notices: Any) -> None:
        """The plane has something to say."""
        self.plane.notices += notices
        self.settle()

    def found(self, kind: type[E], check: Callable[[E], bool] = lambda _: True) -> list[E]:
        """The relay's events of one kind."""
        return [event for event in self.log if isinstance(event, kind) and check(event)]
