"""The policy with rules, and its checks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.policy import rule_policy
from laps_relay.policy.facts import Facts, NodeNote, NodePattern, Region
from laps_relay.policy.interface import ClassLimits, Policy
from laps_relay.policy.rule_policy import (
    Finding,
    HashedFilter,
    LinkTable,
    RulePolicy,
    first_refusal,
    node_finding,
    path_findings,
)
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, ServiceClass, TrackRule
from laps_sdk.peering.events import Refusal
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
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


def node(text: str, *regions: str, country: str = "", **labels: str) -> Facts:
    return Facts(NodeId.parse(text), regions, country, labels)


def link(one: str, other: str, *countries: str, name: str = "cable") -> Link:
    return Link(
        name=name,
        between=(NodePattern.parse(one), NodePattern.parse(other)),
        countries=countries,
    )


A, B, C = node("1:1", "us", country="US"), node("1:2", country="CA"), node("1:3", "eu")


def test_the_first_refusal_counts() -> None:
    yes = Finding("r1", "s", True, "fine")
    assert first_refusal([]) is None
    assert first_refusal([yes]) is None
    found = [yes, Finding("r2", "s", False, "no"), Finding("r3", "s", False, "never")]
    assert first_refusal(found) == Refusal("r2", "no")


def test_an_open_fence_has_no_say() -> None:
    assert list(node_finding("peers", Fence(), "peer", A)) == []
    assert list(node_finding("peers", NO_CA, "peer", A)) == [
        Finding("peers", "peer", True, "nothing is against it")
    ]
    assert list(node_finding("peers", NO_CA, "peer", B)) == [
        Finding("peers", "peer", False, "country CA is denied")
    ]


def test_links_are_found_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_policy, "_MEMO", 2)
    cable, other = link("1:1", "1:*", "US", "CA"), link("1:3", "*", "FR", name="other")
    table = LinkTable([cable, other])
    for _ in range(2):
        assert table.between(A.node_id, B.node_id) == (cable,)
        assert table.between(B.node_id, A.node_id) == (cable,)
        assert table.between(A.node_id, C.node_id) == (cable, other)
        assert table.between(B.node_id, NodeId(0)) == ()
    assert LinkTable([]).between(A.node_id, B.node_id) == ()


def test_transit_is_between_the_ends_and_links_are_everywhere() -> None:
    fences = [("transit", Fence()), ("classes.x.transit", NO_CA)]
    none = LinkTable([])
    assert list(path_findings(fences, none, [B, B])) == [], "ends are not transit"
    denied = Finding("classes.x.transit", "transit 0.1:0.2", False, "country CA is denied")
    assert list(path_findings(fences, none, [A, B, C])) == [denied]
    table = LinkTable([link("1:1", "1:3", "US", "CA"), link("1:1", "1:2", "US")])
    subject = "link 0.1:0.1 to 0.1:0.3 (cable)"
    assert list(path_findings(fences, table, [A, C])) == [
        Finding("classes.x.transit", subject, False, "country CA is denied")
    ]
    assert list(path_findings(fences, table, [A, B])) == [
        Finding("classes.x.transit", "link 0.1:0.1 to 0.1:0.2 (cable)", True, "it passes US")
    ]


def filter_of(*rules: FilterRule, accept: bool = True) -> HashedFilter:
    wanted = Filter(rules=rules, accept=accept)
    return HashedFilter("import.subscribe", wanted, [None] * len(rules))


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (FilterRule(name="r", accept=False), True),
        (FilterRule(name="r", accept=False, peers=patterns("5:5", "1:1")), True),
        (FilterRule(name="r", accept=False, peers=patterns("5:5")), False),
        (FilterRule(name="r", accept=False, peer_regions=frozenset({"us", "x"})), True),
        (FilterRule(name="r", accept=False, peer_regions=frozenset({"eu"})), False),
        (FilterRule(name="r", accept=False, sources=patterns("1:3")), True),
        (FilterRule(name="r", accept=False, sources=patterns("1:1")), False),
        (FilterRule(name="r", accept=False, source_regions=frozenset({"eu"})), True),
        (FilterRule(name="r", accept=False, source_regions=frozenset({"us"})), False),
        (FilterRule(name="r", accept=False, labels=(("tenant", "acme"),)), True),
        (FilterRule(name="r", accept=False, labels=(("tenant", "acme"), ("a", "b"))), False),
        (
            FilterRule(
                name="r", accept=False, peers=patterns("1:1"), source_regions=frozenset({"us"})
            ),
            False,
        ),
    ],
)
def test_all_conditions_must_hold(rule: FilterRule, matches: bool) -> None:
    source = node("1:3", "eu", tenant="acme")
    found = filter_of(rule).finding(A, source, None)
    assert found.allowed is not matches
    assert found.rule == ("import.subscribe.r" if matches else "import.subscribe.default")
    assert found.subject == "0.1:0.3"


def test_the_first_rule_that_matches_decides() -> None:
    first = FilterRule(name="first", accept=True, sources=patterns("1:*"))
    rest = FilterRule(name="rest", accept=False, reason="not here")
    found = filter_of(first, rest)
    assert found.refusal(A, C) is None
    assert found.finding(A, C, None).reason == "accepted by rule 'first' of import.subscribe"
    stranger = node("9:9")
    assert found.refusal(A, stranger) == Refusal("import.subscribe.rest", "not here")


def test_the_default_decides_if_nothing_matches() -> None:
    rule = FilterRule(name="r", accept=True, sources=patterns("1:3"))
    strict = filter_of(rule, accept=False)
    assert strict.refusal(A, C) is None
    reason = "denied: no rule of import.subscribe matches"
    assert strict.refusal(A, B) == Refusal("import.subscribe.default", reason)
    assert "accepted: no rule" in filter_of().finding(A, B, None).reason


def test_a_namespace_is_compared_by_hashes() -> None:
    rule = FilterRule(name="r", accept=False)
    found = HashedFilter("import.announce", Filter(rules=(rule,)), [(1, 2)])
    assert found.refusal(A, B, (1, 2)) is not None
    assert found.refusal(A, B, (1, 2, 3)) is not None
    assert found.refusal(A, B, (1,)) is None
    assert found.refusal(A, B, (2, 1)) is None
    assert found.refusal(A, B) is None


def test_a_filter_that_lets_everything_pass_is_open() -> None:
    accepts = FilterRule(name="r", accept=True)
    assert filter_of().is_open
    assert not filter_of().has_rules
    assert filter_of(accepts).is_open
    assert filter_of(accepts).has_rules
    assert not filter_of(accepts, accept=False).is_open
    assert filter_of(accept=False).has_rules
    assert not filter_of(FilterRule(name="r", accept=False)).is_open
