from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.policy import rule_policy
from laps_relay.policy.facts import NodeNote, Region
from laps_relay.policy.interface import ClassLimits, Policy
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rule_policy import RulePolicy
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, ServiceClass, TrackRule
from laps_sdk.peering.events import Refusal
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    Label,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    Stamp,
    SubscribeInfo,
)
from testkit.paths import Directory, describe

HASHER = KeyedHasher(bytes(range(16)))
ME = describe("100.1:0.1")
VIA = describe("150.1:0.1")
OTHER = describe("100.5:0.1")
FAR = describe("200.1:0.1")
EMPTY = Directory()


def patterns(*texts: str) -> tuple[NodePattern, ...]:
    return tuple(map(NodePattern.parse, texts))


REGIONS = (
    Region(name="us", nodes=patterns("100.*:*")),
    Region(name="ca", nodes=patterns("150.*:*")),
    Region(name="eu", nodes=patterns("200.*:*"), names=frozenset({"eu-west"})),
)
NOTES = (NodeNote(nodes=patterns("150.*:*"), country="CA"),)
NO_CA = Fence(deny_countries=frozenset({"CA"}))
CABLE = Link(
    name="cable",
    between=(NodePattern.parse("100.1:*"), NodePattern.parse("100.5:*")),
    countries=("US", "CA"),
)


def policy(**parts: object) -> RulePolicy:
    rules = Rules(regions=REGIONS, notes=NOTES, **parts)  # type: ignore[arg-type]  # by name
    found = RulePolicy(rules, HASHER, local=ME.node_id)
    as_protocol: Policy = found
    assert as_protocol is found
    return found


def name(*fields: bytes, track: bytes = b"t") -> FullTrackName:
    return FullTrackName(Namespace(fields), track)


def subscribe(
    *fields: bytes, source: NodeSelf = FAR, scope: tuple[Label, ...] = ()
) -> SubscribeInfo:
    return SubscribeInfo(source.node_id, Stamp(1, 1), HASHER.elements(fields), 1, 2, scope=scope)


def announce(*fields: bytes, source: NodeSelf = FAR) -> AnnounceInfo:
    elements = HASHER.elements(fields)
    return AnnounceInfo(source.node_id, Stamp(1, 1), AnnounceKind.NAMESPACE, elements, None, 2)


def way(target: NodeSelf, *relays: NodeSelf) -> NodeInfo:
    """As the next hop, the first of the relays, tells it."""
    path = tuple(NodePathItem(relay.node_id, 1) for relay in reversed(relays))
    return NodeInfo(target, path=path)


# Peers and nodes


def test_who_may_peer() -> None:
    assert policy().peer(FAR) is None
    found = policy(peers=Fence(allow_regions=frozenset({"us", "ca"})))
    assert found.peer(VIA) is None
    assert found.peer(FAR) == Refusal("peers", "region eu is not allowed")


def test_transit_that_is_denied_to_all_is_not_imported() -> None:
    found = policy(transit=NO_CA)
    assert found.import_node(way(FAR), FAR, EMPTY.info) is None
    assert found.import_node(way(VIA), VIA, EMPTY.info) is None, "the end of a way is not transit"
    assert found.import_node(way(FAR, OTHER), OTHER, EMPTY.info) is None
    denied = Refusal("transit", "country CA is denied")
    assert found.import_node(way(FAR, VIA), VIA, EMPTY.info) == denied
    assert found.import_node(way(FAR, OTHER, VIA), OTHER, EMPTY.info) == denied
    assert policy().import_node(way(FAR, VIA), VIA, EMPTY.info) is None


def test_what_relays_on_the_way_say_of_themselves_counts() -> None:
    found = policy(transit=Fence(need=(("tier", "core"),)))
    middle = describe("5:5", labels={"tier": "core"})
    assert found.import_node(way(FAR, middle), middle, EMPTY.info) is None
    first = describe("5:6", labels={"tier": "core"})
    refusal = Refusal("transit", f"node {middle.node_id} has no label tier = core")
    assert found.import_node(way(FAR, first, middle), first, EMPTY.info) == refusal
    assert found.import_node(way(FAR, first, middle), first, Directory(middle).info) is None


def test_the_declared_path_of_our_own_link_counts() -> None:
    found = policy(transit=NO_CA, links=(CABLE,))
    denied = Refusal("transit", "country CA is denied")
    assert found.import_node(way(OTHER), OTHER, EMPTY.info) == denied
    assert found.import_node(way(FAR, OTHER), OTHER, EMPTY.info) == denied
    assert found.path("", [ME, OTHER]) == denied
    assert found.path("", [OTHER, ME]) == denied
    assert found.path("", [ME, FAR, OTHER]) is None


def test_node_filters() -> None:
    rule = FilterRule(name="r", accept=False, source_regions=frozenset({"eu"}), reason="hidden")
    found = policy(import_node=Filter(rules=(rule,)), export_node=Filter(accept=False))
    assert found.import_node(way(FAR), VIA, EMPTY.info) == Refusal("import.node.r", "hidden")
    assert found.import_node(way(VIA), VIA, EMPTY.info) is None
    out = found.export_node(way(VIA), FAR)
    assert out is not None
    assert out.rule == "export.node.default"
    assert policy().export_node(way(VIA), FAR) is None


# Entries


def test_entries_are_filtered_by_namespace_source_and_scope() -> None:
    trial = FilterRule(
        name="trial",
        accept=False,
        namespace=Namespace.of(b"acme", b"trial"),
        source_regions=frozenset({"eu"}),
    )
    tenant = FilterRule(name="tenant", accept=False, labels=(("tenant", "evil"),))
    found = policy(
        import_subscribe=Filter(rules=(trial, tenant)),
        export_subscribe=Filter(rules=(tenant,)),
    )
    refused = found.import_subscribe(subscribe(b"acme", b"trial", b"x"), VIA)
    assert refused is not None
    assert refused.rule == "import.subscribe.trial"
    assert found.import_subscribe(subscribe(b"acme", b"x"), VIA) is None
    assert found.import_subscribe(subscribe(b"acme", b"trial", source=ME), VIA) is None
    from_scope = subscribe(b"acme", b"trial", source=ME, scope=(Label("region", "eu-west"),))
    assert found.import_subscribe(from_scope, VIA) is not None
    evil = subscribe(b"x", scope=(Label("tenant", "evil"),))
    assert found.import_subscribe(evil, VIA) is not None
    assert found.export_subscribe(evil, VIA) is not None
    assert found.export_subscribe(subscribe(b"x"), VIA) is None
    assert found.import_announce(announce(b"acme", b"trial"), VIA) is None


def test_announces_are_filtered_by_peer() -> None:
    rule = FilterRule(
        name="staff",
        accept=False,
        namespace=Namespace.of(b"staff"),
        peer_regions=frozenset({"eu"}),
    )
    found = policy(export_announce=Filter(rules=(rule,)), import_announce=Filter(accept=False))
    refused = found.export_announce(announce(b"staff", b"a", source=ME), FAR)
    assert refused is not None
    assert refused.rule == "export.announce.staff"
    assert found.export_announce(announce(b"staff", source=ME), VIA) is None
    assert found.import_announce(announce(b"a"), VIA) is not None
    assert policy().import_announce(announce(b"a"), VIA) is None
    assert policy().import_subscribe(subscribe(b"a"), VIA) is None


# Tracks


def test_every_rule_that_matches_a_track_narrows() -> None:
    found = policy(
        tracks=(
            TrackRule(
                name="inner",
                namespace=Namespace.of(b"acme", b"town"),
                subscribers=Fence(allow_regions=frozenset({"us"})),
            ),
            TrackRule(
                name="outer",
                namespace=Namespace.of(b"acme"),
                subscribers=Fence(deny_regions=frozenset({"ca"})),
            ),
            TrackRule(
                name="one",
                namespace=Namespace.of(b"acme"),
                track=b"secret",
                subscribers=Fence(deny_nodes=patterns("*")),
            ),
        )
    )
    town = name(b"acme", b"town")
    entry = subscribe(b"acme", b"town")
    refused = Refusal("track.inner", "region eu is not allowed")
    assert found.subscribe(town, entry, FAR, ME) == refused
    assert found.local_subscribe(town, FAR) == refused
    assert found.subscribe(town, entry, OTHER, ME) is None
    assert found.subscribe(town, entry, VIA, ME) == Refusal("track.outer", "region ca is denied")
    assert found.local_subscribe(name(b"acme"), FAR) is None
    assert found.local_subscribe(name(b"acme2"), VIA) is None
    secret = found.local_subscribe(name(b"acme", track=b"secret"), ME)
    assert secret is not None
    assert secret.rule == "track.one"


def test_the_most_specific_rule_gives_the_class() -> None:
    found = policy(
        tracks=(
            TrackRule(name="a", service_class="bronze"),
            TrackRule(name="b", namespace=Namespace.of(b"x"), track=b"t", service_class="gold"),
            TrackRule(name="c", namespace=Namespace.of(b"x"), service_class="silver"),
            TrackRule(name="d", namespace=Namespace.of(b"x"), service_class="late"),
            TrackRule(name="e", namespace=Namespace.of(b"x", b"y")),
        )
    )
    assert found.scope(name(b"z")) == "bronze"
    assert found.scope(name(b"x")) == "gold"
    assert found.scope(name(b"x", track=b"u")) == "silver"
    assert found.scope(name(b"x", b"y", track=b"u")) == "silver"
    assert policy().scope(name(b"x")) == ""


# Ways


def test_a_class_narrows_what_all_may_pass() -> None:
    gold = ServiceClass(name="gold", transit=NO_CA, limits=ClassLimits(max_rtt_us=5))
    found = policy(classes={"gold": gold}, transit=Fence(deny_nodes=patterns("100.5:*")))
    assert found.path("", [ME, VIA, FAR]) is None
    assert found.path("gold", [ME, VIA, FAR]) == Refusal(
        "classes.gold.transit", "country CA is denied"
    )
    denied = Refusal("transit", "node 100.5:0.1 is denied (100.5:*)")
    for scope in ("", "gold", "unheard of"):
        assert found.path(scope, [ME, OTHER, FAR]) == denied
        assert found.path(scope, [ME, FAR]) is None
    assert found.limits("gold") == ClassLimits(max_rtt_us=5)
    assert found.limits("") == ClassLimits()


def test_answers_are_remembered_and_follow_what_nodes_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_policy, "_MEMO", 2)
    found = policy(transit=NO_CA)
    for country, allowed in (("US", True), ("CA", False), ("US", True), ("FR", True)):
        middle = describe("5:5", labels={"country": country})
        for _ in range(2):
            assert (found.path("", [ME, middle, FAR]) is None) == allowed


def test_regions() -> None:
    found = policy()
    assert found.region(FAR) == "eu"
    assert found.region(describe("7:7", region="moon")) == "moon"
    assert found.facts(VIA).country == "CA"
    assert found.country(VIA) == "CA"


NODES = [ME, VIA, OTHER, FAR, describe("5:5", labels={"country": "FR"})]
WORDS = st.frozensets(st.sampled_from(["US", "CA", "FR", ""]))
PLACES = st.frozensets(st.sampled_from(["us", "ca", "eu"]))
SOME = st.lists(st.sampled_from(["100.*:*", "*:0.1", "5:5"]), max_size=2).map(
    lambda texts: patterns(*texts)
)
FENCES = st.builds(
    Fence,
    allow_nodes=SOME,
    deny_nodes=SOME,
    allow_regions=PLACES,
    deny_regions=PLACES,
    allow_countries=WORDS,
    deny_countries=WORDS,
)


@given(FENCES, FENCES, st.lists(st.sampled_from(NODES), min_size=2, max_size=5))
def test_a_class_never_allows_what_is_denied_to_all(
    transit: Fence, own: Fence, way: list[NodeSelf]
) -> None:
    gold = ServiceClass(name="gold", transit=own)
    found = policy(transit=transit, classes={"gold": gold}, links=(CABLE,))
    both = found.path("gold", way)
    alone = policy(transit=own, links=(CABLE,)).path("", way)
    assert (both is None) == (found.path("", way) is None and alone is None)
    assert found.path("gold", list(reversed(way))) is None or both is not None
    # What is explained is what is done.
    explained = [item.allowed for item in found.explain_path("gold", way)]
    assert all(explained) == (both is None)


# Explanations


def test_explanations_show_what_is_allowed_too() -> None:
    found = policy(transit=NO_CA, peers=NO_CA)
    assert [item.allowed for item in found.explain_peer(VIA)] == [False]
    assert [item.allowed for item in found.explain_path("", [ME, OTHER, VIA, FAR])] == [True, False]
    assert list(found.explain_subscriber(name(b"x"), FAR)) == []


def test_entries_are_explained_if_a_filter_was_written() -> None:
    rule = FilterRule(name="r", accept=False, namespace=Namespace.of(b"x"))
    found = policy(import_subscribe=Filter(rules=(rule,)), export_node=Filter(accept=False))
    assert list(found.explain_entry("export.subscribe", VIA, FAR, name(b"x"))) == []
    (denied,) = found.explain_entry("import.subscribe", VIA, FAR, name(b"x"))
    assert (denied.rule, denied.allowed) == ("import.subscribe.r", False)
    (passed,) = found.explain_entry("import.subscribe", VIA, FAR, name(b"y"))
    assert passed.allowed
    (node,) = found.explain_entry("export.node", VIA, FAR)
    assert node.rule == "export.node.default"
