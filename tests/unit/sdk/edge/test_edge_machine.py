"""Random publishers, subscribers and watchers of both drafts: what must hold whatever they do.

The tests of the single parts say what each answer is. Here only the bookkeeping counts: every
request gets one answer, the plane is programmed as the tables say, caps hold, and when everybody
has left nothing is left.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from laps_sdk.edge.records import Stage
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    RankChanged,
    SubscriptionDone,
    TrackEnded,
    TrackMalformed,
    UpstreamEnded,
)
from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import FilterType, SubscribeOptions
from laps_wire.moqt.messages import (
    Fetch,
    Publish,
    RelativeJoiningFetch,
    StandaloneFetch,
    Subscribe,
    TrackStatus,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    Kind,
    RequestAccepted,
    RequestReceived,
    RequestRejected,
    SessionLimits,
    State,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.top_n import top_n_options
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_net import EdgeNet, Peer

NAMESPACES = [Namespace.of(b"a"), Namespace.of(b"a", b"b"), Namespace.of(b"c")]
PREFIXES = [Namespace(), *NAMESPACES]
NAMES = [FullTrackName(namespace, name) for namespace in NAMESPACES for name in (b"x", b"y")]

SETTINGS = EdgeSettings(
    session_subscriptions=3,
    session_publishes=3,
    session_namespaces=2,
    session_prefixes=2,
    session_fetches=2,
    session_offers=3,
    max_tracks=6,
    max_subscriptions=8,
    linger=1.0,
    cache_linger=2.0,
    rendezvous_wait=0.5,
    upstream_timeout=3.0,
)

FILTERS = st.sampled_from(
    [
        None,
        SubscriptionFilter(FilterType.LARGEST_OBJECT),
        SubscriptionFilter(FilterType.NEXT_GROUP_START),
        SubscriptionFilter(FilterType.ABSOLUTE_START, Location(2, 0)),
        SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(1, 0), 3),
    ]
)


class Edge(RuleBasedStateMachine):
    """A relay and whoever comes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = EdgeNet(settings=SETTINGS)
        self.everybody: list[Peer] = []

    # Helpers

    def pick(self, index: int) -> Peer:
        peers = list(self.net.peers.values())
        return peers[index % len(peers)]

    def do(self, command: Any, *args: Any, **kwargs: Any) -> None:
        """A client's command; what its session forbids it leaves alone."""
        try:
            command(*args, **kwargs)
        except LocalError:
            return
        self.net.settle()

    def open(self, peer: Peer, *kinds: Kind, ours: bool) -> list[int]:
        """Requests that are open at a client, made by the relay (``ours``) or by itself."""
        session = peer.session
        return [
            request
            for request in session.open_requests
            if session.request_kind(request) in kinds and request % 2 == ours
        ]

    # Sessions

    @precondition(lambda self: len(self.net.peers) < 4)
    @rule(
        draft=st.sampled_from(Draft),
        requests=st.sampled_from([1, 2, 64]),
        top=st.sampled_from([0, 1, 2]),
    )
    def connect(self, draft: Draft, requests: int, top: int) -> None:
        options = SetupOptions(unknown=top_n_options(top)) if top else SetupOptions()
        limits = SessionLimits(max_requests=requests)
        self.everybody.append(self.net.connect(draft, options=options, limits=limits))

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), gently=st.booleans())
    def leave(self, who: int, gently: bool) -> None:
        peer = self.pick(who)
        if gently:
            self.net.leave(peer)
        else:
            self.net.lose(peer)

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3))
    def goaway(self, who: int) -> None:
        self.do(self.pick(who).session.goaway)

    # Requests of clients

    @precondition(lambda self: self.net.peers)
    @rule(
        who=st.integers(0, 3),
        name=st.sampled_from(NAMES),
        forward=st.sampled_from([None, True, False]),
        wanted=FILTERS,
        group=st.sampled_from([None, 0, 4]),
    )
    def subscribe(
        self,
        who: int,
        name: FullTrackName,
        forward: bool | None,
        wanted: SubscriptionFilter | None,
        group: int | None,
    ) -> None:
        parameters = Parameters(
            forward=forward, subscription_filter=wanted, new_group_request=group
        )
        self.do(self.pick(who).session.subscribe, name, parameters)

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), name=st.sampled_from(NAMES))
    def publish(self, who: int, name: FullTrackName) -> None:
        self.do(self.pick(who).session.publish, name, NAMES.index(name))

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), namespace=st.sampled_from(NAMESPACES))
    def publish_namespace(self, who: int, namespace: Namespace) -> None:
        self.do(self.pick(who).session.publish_namespace, namespace)

    @precondition(lambda self: self.net.peers)
    @rule(
        who=st.integers(0, 3),
        prefix=st.sampled_from(PREFIXES),
        options=st.sampled_from(SubscribeOptions),
    )
    def watch(self, who: int, prefix: Namespace, options: SubscribeOptions) -> None:
        peer = self.pick(who)
        if peer.draft is Draft.D16:
            self.do(peer.session.subscribe_namespace, prefix, options)
        elif options is SubscribeOptions.NAMESPACE:
            self.do(peer.session.subscribe_namespace, prefix)
        else:
            self.do(peer.session.subscribe_tracks, prefix)

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), name=st.sampled_from(NAMES), fill=st.sampled_from([None, 0, 500]))
    def fetch(self, who: int, name: FullTrackName, fill: int | None) -> None:
        peer = self.pick(who)
        parameters = Parameters(fill_timeout=fill if peer.draft is Draft.D18 else None)
        target = StandaloneFetch(name, Location(0, 0), Location(3, 0))
        self.do(peer.session.fetch, target, parameters)

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), back=st.integers(0, 2))
    def join(self, who: int, back: int) -> None:
        peer = self.pick(who)
        for request in self.open(peer, Kind.SUBSCRIBE, ours=False)[:1]:
            # Draft 16 closes the session if the filter is not Largest Object.
            if peer.draft is Draft.D18:
                self.do(peer.session.fetch, RelativeJoiningFetch(request, back))

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), name=st.sampled_from(NAMES))
    def status(self, who: int, name: FullTrackName) -> None:
        self.do(self.pick(who).session.track_status, name)

    # What clients do about requests

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), which=st.integers(0, 5), yes=st.booleans())
    def answer(self, who: int, which: int, yes: bool) -> None:
        """Answer a request of the relay."""
        peer = self.pick(who)
        session = peer.session
        waiting = [
            event
            for event in peer.events
            if isinstance(event, RequestReceived)
            and session.request_state(event.request_id) is State.PENDING
        ]
        if not waiting:
            return
        event = waiting[which % len(waiting)]
        message = event.message
        if not yes:
            self.do(session.reject, event.request_id, 0x10, "no")
        elif isinstance(message, Subscribe):
            alias = 100 + NAMES.index(message.track)
            self.do(session.accept_subscribe, event.request_id, alias)
        elif isinstance(message, Fetch):
            self.do(session.accept_fetch, event.request_id, Location(1, 1))
        else:
            assert isinstance(message, Publish | TrackStatus)
            self.do(session.accept, event.request_id)

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), which=st.integers(0, 9))
    def cancel(self, who: int, which: int) -> None:
        peer = self.pick(who)
        requests = peer.session.open_requests
        if requests:
            self.do(peer.session.cancel, requests[which % len(requests)])

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), which=st.integers(0, 9), streams=st.integers(0, 1))
    def publish_done(self, who: int, which: int, streams: int) -> None:
        peer = self.pick(who)
        requests = peer.session.open_requests
        if requests:
            self.do(peer.session.publish_done, requests[which % len(requests)], 2, streams, "")

    @precondition(lambda self: self.net.peers)
    @rule(
        who=st.integers(0, 3),
        which=st.integers(0, 9),
        forward=st.booleans(),
        wanted=FILTERS,
    )
    def update(
        self, who: int, which: int, forward: bool, wanted: SubscriptionFilter | None
    ) -> None:
        peer = self.pick(who)
        requests = peer.session.open_requests
        if requests:
            request = requests[which % len(requests)]
            parameters = Parameters(forward=forward, subscription_filter=wanted)
            if peer.session.request_kind(request) not in (Kind.SUBSCRIBE, Kind.PUBLISH):
                parameters = Parameters()
            self.do(peer.session.update, request, parameters)

    @precondition(lambda self: self.net.peers)
    @rule(who=st.integers(0, 3), prefix=st.sampled_from(PREFIXES))
    def move(self, who: int, prefix: Namespace) -> None:
        peer = self.pick(who)
        for request in self.open(peer, Kind.SUBSCRIBE_NAMESPACE, Kind.SUBSCRIBE_TRACKS, ours=False)[
            :1
        ]:
            if peer.draft is Draft.D18:
                self.do(peer.session.update, request, Parameters(track_namespace_prefix=prefix))

    # What the plane tells

    @precondition(lambda self: self.net.plane.tracks)
    @rule(which=st.integers(0, 9), group=st.integers(0, 5), covered=st.booleans())
    def objects(self, which: int, group: int, covered: bool) -> None:
        plane = self.net.plane
        numbers = list(plane.tracks)
        number = numbers[which % len(numbers)]
        before = plane.largest_of.get(number, Location(0, 0))
        plane.largest_of[number] = max(before, Location(group, 1))
        plane.cached[number] = 1
        if covered:
            plane.covered.add(number)

    @precondition(lambda self: self.net.plane.tracks)
    @rule(which=st.integers(0, 9), value=st.integers(0, 3))
    def rank(self, which: int, value: int) -> None:
        numbers = list(self.net.plane.tracks)
        self.net.notify(RankChanged(numbers[which % len(numbers)], value))

    @precondition(lambda self: self.net.plane.tracks)
    @rule(which=st.integers(0, 9), broken=st.booleans())
    def end_of_track(self, which: int, broken: bool) -> None:
        numbers = list(self.net.plane.tracks)
        number = numbers[which % len(numbers)]
        if broken:
            feeding = [key[0] for key, item in self.net.plane.ingress.items() if item[0] == number]
            if feeding:
                self.net.notify(TrackMalformed(number, feeding[0], "broken"))
        else:
            self.net.notify(TrackEnded(number, Location(9, 9)))

    @precondition(lambda self: self.net.plane.egress)
    @rule(which=st.integers(0, 9))
    def last_group(self, which: int) -> None:
        keys = list(self.net.plane.egress)
        self.net.notify(SubscriptionDone(keys[which % len(keys)]))

    @precondition(lambda self: self.net.plane.served or self.net.plane.relayed)
    @rule(which=st.integers(0, 9), complete=st.booleans())
    def fetched(self, which: int, complete: bool) -> None:
        plane = self.net.plane
        keys = [*plane.served, *plane.relayed]
        key = keys[which % len(keys)]
        plane.served.pop(key, None)
        relayed = plane.relayed.pop(key, None)
        notices: list[Any] = [FetchEnded(key, complete)]
        if relayed is not None:
            notices.insert(which % 2, UpstreamEnded(relayed.session, relayed.request_id, complete))
        self.net.notify(*notices)

    # Time

    @rule(seconds=st.sampled_from([0.1, 0.6, 2.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.net.advance(seconds)

    @rule()
    def reauthorize(self) -> None:
        self.net.relay.reauthorize(self.net.now)
        self.net.settle()

    # What must hold

    @invariant()
    def the_plane_is_as_the_tables_say(self) -> None:
        relay = self.net.relay
        plane = self.net.plane
        receivers = {
            receiver.subscription: receiver
            for track in relay._tracks.by_number.values()
            for receiver in track.receivers.values()
        }
        established = {key for key, item in receivers.items() if item.stage is Stage.ESTABLISHED}
        assert set(plane.egress) == established
        for key, entry in plane.egress.items():
            assert entry.track == receivers[key].track.number
            assert entry.forward == receivers[key].forward
        feeding = {
            (client.id, source.alias): source.track.number
            for client in relay._state.clients.values()
            for source in client.feeds
            if source.stage is not Stage.PENDING
        }
        assert {key: item[0] for key, item in plane.ingress.items()} == feeding
        installed = {n for n, track in relay._tracks.by_number.items() if track.installed}
        assert set(plane.tracks) == installed
        assert set(plane.ranked) == {
            n for n, track in relay._tracks.by_number.items() if track.ranked and track.installed
        }

    @invariant()
    def caps_hold_and_counts_are_right(self) -> None:
        relay = self.net.relay
        assert len(relay._tracks.by_number) <= SETTINGS.max_tracks
        count = sum(len(track.receivers) for track in relay._tracks.by_number.values())
        assert relay._state.subscriptions == count <= SETTINGS.max_subscriptions
        for row in self.net.relay.sessions():
            assert 0 <= row.subscriptions <= SETTINGS.session_subscriptions
            assert 0 <= row.publishes <= SETTINGS.session_publishes
            assert 0 <= row.namespaces <= SETTINGS.session_namespaces
            assert 0 <= row.prefixes <= SETTINGS.session_prefixes
            assert 0 <= row.fetches <= SETTINGS.session_fetches
            assert 0 <= row.offers <= SETTINGS.session_offers

    @invariant()
    def records_and_sessions_agree(self) -> None:
        """What the relay keeps for a session is open there, and the other way round."""
        relay = self.net.relay
        for client in relay._state.clients.values():
            wire = client.wire
            for request_id in client.requests:
                assert wire.request_state(request_id) is not None, client.requests[request_id]
            for request_id in wire.open_requests:
                if wire.request_kind(request_id) is not Kind.TRACK_STATUS or request_id % 2:
                    assert request_id in client.requests, wire.request_kind(request_id)

    @invariant()
    def nobody_broke_the_protocol(self) -> None:
        for peer in self.everybody:
            for end in (peer.pair.client, peer.pair.server):
                assert not [event for event in end.events if getattr(event, "code", None) == 3], (
                    end.events[-1]
                )

    @invariant()
    def every_request_has_one_answer_at_most(self) -> None:
        for peer in self.everybody:
            answers = Counter(
                event.request_id
                for event in peer.events
                if isinstance(event, RequestAccepted | RequestRejected)
            )
            assert not [request for request, count in answers.items() if count > 1]

    def teardown(self) -> None:
        net = self.net
        # Whoever waits for an answer gets one, and be it that nobody came.
        net.advance(10.0)
        for peer in net.peers.values():
            for request in peer.session.open_requests:
                if request % 2 == 0 and peer.session.request_kind(request) is not Kind.FETCH:
                    assert peer.session.request_state(request) is not State.PENDING
        for peer in list(net.peers.values()):
            net.leave(peer)
        net.advance(100.0)
        relay = net.relay
        assert not relay._state.clients
        assert not relay._tracks.by_number
        assert not relay._tracks.by_name
        assert not relay._tracks.stale
        assert len(relay._tracks.tree) == 0
        assert len(relay._state.offers) == 0
        assert len(relay._state.watches) == 0
        assert relay._state.subscriptions == 0
        assert len(relay._state.timers) == 0
        plane = net.plane
        assert not plane.sessions
        assert not plane.tracks
        assert not plane.ingress
        assert not plane.egress


TestEdge = Edge.TestCase
