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
    def the_plane_is_as_the_relay_says(self) -> None:
        relay = self.net.relay
        plane = self.net.plane
        tracks = {row.number: row for row in relay.tracks()}
        assert plane.tracks == {number: row.track for number, row in tracks.items()}
        receivers = {
            (row.session, row.request_id): (row.track, row.forward)
            for row in relay.subscriptions()
            if row.established
        }
        assert receivers == {
            tuple(key): (plane.tracks[entry.track], entry.forward)
            for key, entry in plane.egress.items()
        }
        feeding = {(session, row.number) for row in tracks.values() for session in row.publishers}
        assert feeding <= {(session, item[0]) for (session, _), item in plane.ingress.items()}
        for (session, _), (number, _) in plane.ingress.items():
            assert session in self.net.peers
            assert number in tracks
        assert set(plane.ranked) <= set(tracks)

    @invariant()
    def caps_hold_and_counts_are_right(self) -> None:
        relay = self.net.relay
        assert len(relay.track_numbers()) <= SETTINGS.max_tracks
        receivers = relay.subscriptions()
        assert len(receivers) <= SETTINGS.max_subscriptions
        counts = Counter((row.session, row.pushed) for row in receivers)
        for row in relay.sessions():
            assert counts[row.session, False] == row.subscriptions <= SETTINGS.session_subscriptions
            assert counts[row.session, True] == row.offers <= SETTINGS.session_offers
            assert 0 <= row.publishes <= SETTINGS.session_publishes
            assert 0 <= row.namespaces <= SETTINGS.session_namespaces
            assert 0 <= row.prefixes <= SETTINGS.session_prefixes
            assert 0 <= row.fetches <= SETTINGS.session_fetches

    @invariant()
    def the_relay_counts_what_its_sessions_have_open(self) -> None:
        """What the relay keeps for a session is open there, and the other way round."""
        for row in self.net.relay.sessions():
            wire = self.net.peers[row.session].wire
            kept = Counter(
                (wire.request_kind(request_id), request_id % 2 == 1)
                for request_id in wire.open_requests
            )
            assert kept[Kind.SUBSCRIBE, False] == row.subscriptions
            # A publisher whose request is over counts until its last streams have arrived.
            feeds = sum(session == row.session for session, _ in self.net.plane.ingress)
            publishes = kept[Kind.PUBLISH, False]
            assert publishes <= row.publishes <= publishes + feeds
            assert kept[Kind.PUBLISH_NAMESPACE, False] == row.namespaces
            prefixes = kept[Kind.SUBSCRIBE_NAMESPACE, False] + kept[Kind.SUBSCRIBE_TRACKS, False]
            assert prefixes == row.prefixes
            assert kept[Kind.FETCH, False] == row.fetches
            assert kept[Kind.PUBLISH, True] == row.offers
        for receiver in self.net.relay.subscriptions():
            wire = self.net.peers[receiver.session].wire
            assert wire.request_state(receiver.request_id) is not None

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
        self.nothing_is_left()
        # All room is free again: as many tracks and receivers as at the beginning.
        newcomers = [net.connect(Draft.D18) for _ in range(3)]
        for number in range(SETTINGS.max_tracks):
            peer = newcomers[number // SETTINGS.session_publishes]
            peer.session.publish(NAMES[number], number)
        net.settle()
        assert len(net.relay.tracks()) == SETTINGS.max_tracks
        for number in range(SETTINGS.max_subscriptions):
            peer = newcomers[number // SETTINGS.session_subscriptions]
            peer.session.subscribe(NAMES[number % len(NAMES)])
        net.settle()
        assert len(net.relay.subscriptions()) == SETTINGS.max_subscriptions
        for peer in newcomers:
            net.leave(peer)
        net.advance(100.0)
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        net = self.net
        relay = net.relay
        assert not relay.sessions()
        assert not relay.track_numbers()
        assert not relay.subscriptions()
        assert not relay.namespaces()
        assert not any(map(relay.is_watched, PREFIXES))
        assert relay.poll_timeout() is None
        plane = net.plane
        assert not plane.sessions
        assert not plane.tracks
        assert not plane.ingress
        assert not plane.egress


TestEdge = Edge.TestCase
