from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.control_server.redirect import (
    CLIENT_LABEL,
    NEAR_US,
    STEP_US,
    ClientTrack,
    Place,
    choose,
    client_address,
    holders,
    is_loopback_url,
    is_near,
    is_place,
    places,
)
from laps_wire.matching import Subscribe
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    Label,
    Load,
    LoadClass,
    NodeSelf,
    RelayType,
    Stamp,
    SubscribeInfo,
)

OWN = "moqt://own.example:33435"


def node(
    number: int,
    url: str = "",
    *,
    kind: RelayType = RelayType.EDGE,
    load: LoadClass = LoadClass.NORMAL,
    region: str = "",
) -> NodeSelf:
    labels = (Label("country", "DE"), Label(CLIENT_LABEL, url)) if url else ()
    return NodeSelf(
        NodeId(number), kind, Stamp(1, 1), load=Load(load), region=region, labels=labels
    )


def test_edges_that_tell_where_clients_go_are_places() -> None:
    found = places(
        [
            (node(1, "moqt://one.example:1", region="eu"), 10),
            (node(2, "moqt://two.example:2"), None),
            (node(3), 10),
            (node(4, "moqt://four.example:4", kind=RelayType.VIA), 10),
            (node(5, "moqt://five.example:5", load=LoadClass.OVERLOADED), 10),
            (node(6, "moqt://six.example:6", load=LoadClass.DRAINING), 10),
            (node(7, OWN), 10),
            (node(8, "moqt://127.0.0.1:8"), 10),
            (node(9, "moqt://[2001:db8::1]:9", load=LoadClass.BUSY), 10),
        ],
        own_url=OWN,
        loopback=False,
    )
    assert found == [
        Place(NodeId(1), "moqt://one.example:1", "eu", 10),
        Place(NodeId(2), "moqt://two.example:2", "", None),
        Place(NodeId(9), "moqt://[2001:db8::1]:9", "", 10, busy=True),
    ]


def test_who_is_on_loopback_sends_to_loopback() -> None:
    nodes = [(node(8, "moqt://127.0.0.1:8"), 1), (node(9, "moqt://nine.example:9"), 1)]
    assert len(places(nodes, own_url="moqt://127.0.0.1:7", loopback=True)) == 2


@pytest.mark.parametrize(
    "url",
    [
        "https://one.example:1",
        "moqt://one.example",
        "moqt://one.example:0",
        "moqt://:1",
        "moqt://one.example:99999",
        "moqt://[::1:1",
        "moqt://one.example:1/path",
        "moqt://one.example:1?q",
        "moqt://one.example:1#f",
        "moqt://me@one.example:1",
        "moqt://one.exam ple\n:1",
        "moqt://\u00f6.example:1",
        "one.example:1",
    ],
)
def test_what_is_no_address_of_an_edge_is_no_place(url: str) -> None:
    assert places([(node(1, url), 1)], own_url="", loopback=True) == []
    assert not is_place(url)
    assert not is_loopback_url(url)


def test_addresses_on_loopback() -> None:
    for host in ("127.0.0.1", "127.8.0.1", "[::1]", "localhost"):
        assert is_loopback_url(f"moqt://{host}:1")
    for host in ("192.0.2.1", "localhost.example", "[2001:db8::1]"):
        assert not is_loopback_url(f"moqt://{host}:1")


def subscribe(source: int, key: int) -> SubscribeInfo:
    return SubscribeInfo(NodeId(source), Stamp(1, 1), (7,), key, key)


def announce(source: int, elements: tuple[int, ...], name: int | None) -> AnnounceInfo:
    kind = AnnounceKind.NAMESPACE if name is None else AnnounceKind.TRACK
    return AnnounceInfo(NodeId(source), Stamp(1, 1), kind, elements, name, 99)


def test_who_receives_or_publishes_a_track_has_it() -> None:
    wanted = [ClientTrack(1, Subscribe((7, 8), 1)), ClientTrack(2, Subscribe((7,), 2))]
    subscribes = [subscribe(10, 1), subscribe(11, 1), subscribe(12, 3)]
    announces = [announce(20, (7,), None), announce(21, (7, 8), 1), announce(22, (9,), None)]
    assert holders(wanted, subscribes, announces) == {
        1: {NodeId(10), NodeId(11), NodeId(20), NodeId(21)},
        2: {NodeId(20)},
    }


def place(number: int, region: str = "", rtt_us: int | None = 1, *, busy: bool = False) -> Place:
    return Place(NodeId(number), f"moqt://n{number}:1", region, rtt_us, busy)


FAR = 90_000


def test_near_then_not_busy_then_most_tracks() -> None:
    having = {1: {NodeId(1), NodeId(5)}, 2: {NodeId(1), NodeId(2)}}
    origin, one, none = place(1, "us", FAR), place(2, "eu"), place(3, "eu", 1_000)
    everybody = [none, origin, one]
    # A relay of the region that has some of them, before one far away that has all.
    assert choose([1, 2], everybody, having, region="eu") == one
    # Nobody near has it: it stays near all the same.
    assert choose([1], [origin, none], having, region="eu") == none
    assert choose([1], [origin], having, region="eu") == origin
    # One that is busy comes after all that are near and not, and before those far away.
    tired = place(5, "eu", busy=True)
    assert choose([1], [tired, none, origin], having, region="eu") == none
    assert choose([1], [tired, origin], having, region="eu") == tired
    assert choose([1], [place(5, "us", FAR, busy=True), origin], having, region="eu") == origin
    assert choose([1], [], having) is None


def test_far_away_most_tracks_then_the_nearest() -> None:
    having = {1: {NodeId(1), NodeId(2)}}
    places = [place(1, "us", 3 * FAR), place(2, "us", 2 * FAR), place(3, "us", FAR)]
    assert choose([1], places, having, region="eu") == places[1]
    assert choose([], places, having, region="eu") == places[2]
    unknown = place(4, "us", None)
    assert choose([], [unknown, places[0]], having, region="eu") == places[0]
    assert choose([], [unknown], having, region="eu") == unknown


@pytest.mark.parametrize("regions", [("", ""), ("eu", ""), ("", "eu")])
def test_without_regions_a_short_round_trip_is_near(regions: tuple[str, str]) -> None:
    own, other = regions
    origin, near = place(1, other, FAR), place(2, other, NEAR_US)
    assert choose([1], [origin, near], {1: {NodeId(1)}}, region=own) == near
    assert not is_near(place(3, other, NEAR_US + 1), own)
    assert not is_near(place(3, other, None), own)


def test_clients_are_spread_over_places_that_are_equal() -> None:
    near = [place(number, "eu", number * 1_000) for number in (3, 1, 2)]
    everybody = [*near, place(4, "us")]
    found = [choose([], everybody, {}, region="eu", session=number) for number in range(6)]
    assert found == [near[1], near[2], near[0]] * 2
    far = [place(1, "us", FAR), place(2, "us", FAR + STEP_US // 4), place(3, "us", FAR + STEP_US)]
    assert {choose([], far, {}, region="eu", session=number) for number in range(9)} == {
        far[0],
        far[1],
    }


@given(
    st.lists(
        st.builds(
            place,
            st.integers(1, 9),
            st.sampled_from(["eu", "us", ""]),
            st.none() | st.integers(0, 5 * STEP_US),
            busy=st.booleans(),
        ),
        min_size=1,
        unique_by=lambda item: item.node,
    ),
    st.dictionaries(st.integers(0, 4), st.frozensets(st.integers(1, 9).map(NodeId))),
    st.integers(0, 20),
    st.data(),
)
def test_no_other_place_is_better(
    everybody: list[Place],
    having: dict[int, frozenset[NodeId]],
    session: int,
    data: st.DataObject,
) -> None:
    keys = range(5)

    def shared(item: Place) -> int:
        return sum(item.node in having.get(key, ()) for key in keys)

    chosen = choose(keys, everybody, having, region="eu", session=session)
    assert chosen is not None
    mixed = data.draw(st.permutations(everybody))
    assert choose(keys, mixed, having, region="eu", session=session) == chosen
    for other in everybody:
        if is_near(other, "eu"):
            assert is_near(chosen, "eu")
        if is_near(other, "eu") != is_near(chosen, "eu"):
            continue
        assert other.busy or not chosen.busy
        if other.busy == chosen.busy:
            assert shared(other) <= shared(chosen)
            equal = shared(other) == shared(chosen) and not is_near(chosen, "eu")
            if equal and other.rtt_us is not None:
                assert chosen.rtt_us is not None
                assert chosen.rtt_us < other.rtt_us + STEP_US


def test_addresses_in_the_words_of_the_client() -> None:
    assert client_address("moqt://a:1", webtransport=False) == "moqt://a:1"
    assert client_address("moqt://a:1", webtransport=False, path="/x") == "moqt://a:1/x"
    assert client_address("moqt://a:1", webtransport=True) == "https://a:1/"
    assert client_address("moqt://a:1", webtransport=True, path="/x?y") == "https://a:1/x?y"
