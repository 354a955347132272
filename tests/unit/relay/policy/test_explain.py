from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.subscriptions.discovery import Discovery
from laps_relay.network.subscriptions.subscriptions import SubscriberRole
from laps_relay.policy.facts import NodePattern, Region
from laps_relay.policy.rule_policy import RulePolicy, explain
from laps_relay.policy.rules import Fence, Filter, FilterRule, Rules, ServiceClass, TrackRule
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import AnnounceKind, SubscribeInfo
from laps_wire.peering.laps2.information import NO_DATA
from testkit.paths import describe
from testkit.subscription_rig import HASHER, IDENTITY, SETTINGS, Rig, announce_info

A, B, C = describe("1:1"), describe("1:2"), describe("1:3")
TRACK = FullTrackName(Namespace.of(b"x"), b"t")


def policy(rules: Rules) -> RulePolicy:
    return RulePolicy(rules, KeyedHasher(bytes(16)), local=A.node_id)


def test_a_policy_without_rules_has_nothing_to_say() -> None:
    assert explain(policy(Rules()), [A, B, C], TRACK) == []


def test_every_rule_has_its_say() -> None:
    fence = Fence(deny_nodes=(NodePattern.parse("1:2"),))
    anything = Filter(rules=(FilterRule(name="any", accept=True),))
    rules = Rules(
        peers=fence,
        classes={"gold": ServiceClass(name="gold", transit=fence)},
        tracks=(TrackRule(name="x", service_class="gold", subscribers=fence),),
        import_node=anything,
        export_announce=anything,
        import_subscribe=Filter(accept=False),
    )
    found = explain(policy(rules), [A, B, C], TRACK)
    assert [(item.check, item.finding.allowed) for item in found] == [
        ("peer", True),
        ("peer", False),
        ("peer", True),
        ("path", False),
        ("subscriber", True),
        ("import.node", True),
        ("import.node", True),
        ("export.announce", True),
        ("export.announce", True),
        ("import.subscribe", False),
        ("import.subscribe", False),
    ]
    assert [item.finding.subject for item in found[-6:]] == [
        "node of 0.1:0.3 at 0.1:0.2, peer 0.1:0.3",
        "node of 0.1:0.3 at 0.1:0.1, peer 0.1:0.2",
        "announce of 0.1:0.1 at 0.1:0.1, peer 0.1:0.2",
        "announce of 0.1:0.1 at 0.1:0.2, peer 0.1:0.3",
        "subscribe of 0.1:0.3 at 0.1:0.2, peer 0.1:0.3",
        "subscribe of 0.1:0.3 at 0.1:0.1, peer 0.1:0.2",
    ]


def test_without_a_track_only_the_way_and_the_node_are_judged() -> None:
    rules = Rules(
        transit=Fence(deny_nodes=(NodePattern.parse("9:9"),)),
        import_subscribe=Filter(accept=False),
        export_node=Filter(accept=False),
    )
    found = explain(policy(rules), [A, B, C])
    assert [item.check for item in found] == ["path", "export.node", "export.node"]


def test_an_explanation_says_what_the_policy_does() -> None:
    rules = Rules(transit=Fence(deny_nodes=(NodePattern.parse("1:2"),)))
    used = policy(rules)
    for way in ([A, B], [A, B, C], [A, C, B]):
        allowed = all(item.finding.allowed for item in explain(used, way))
        assert allowed == (used.path("", way) is None)


REGIONS = ["", "eu", "us"]
RULES = st.builds(
    FilterRule,
    name=st.just("rule"),
    accept=st.booleans(),
    peers=st.sampled_from([(), (NodePattern.parse("1:2"),)]),
    peer_regions=st.sets(st.sampled_from(["eu", "us"])).map(frozenset),
    sources=st.sampled_from([(), (NodePattern.parse("1:3"),)]),
    source_regions=st.sets(st.sampled_from(["eu", "us"])).map(frozenset),
    namespace=st.sampled_from([None, TRACK.namespace, Namespace.of(b"y")]),
    labels=st.sampled_from([(), (("region", "eu"),)]),
)


def subscribed(region: str) -> SubscribeInfo:
    """What the relay C, which calls its region so, says when its clients want the track."""
    rig = Rig()
    identity = replace(IDENTITY, region=region)
    discovery = Discovery(identity.node_id, HASHER)
    wants = SubscriberRole(identity, SETTINGS, HASHER, discovery, **rig.wanting())
    wants.subscribe(0.0, TRACK, NO_DATA)
    (entry,) = rig.subscribes.live()
    return replace(entry, source=C.node_id)


@given(
    rules=st.lists(RULES, max_size=3),
    region=st.sampled_from(REGIONS),
    peer_region=st.sampled_from(REGIONS),
    default=st.booleans(),
)
def test_what_is_explained_of_a_filter_is_what_it_does(
    rules: list[FilterRule], region: str, peer_region: str, default: bool
) -> None:
    given_ = Filter(rules=tuple(rules), accept=default)
    used = RulePolicy(
        Rules(
            regions=(Region(name="eu", names=frozenset({"eu"})), Region(name="us")),
            import_subscribe=given_,
            export_subscribe=given_,
            import_announce=given_,
            export_announce=given_,
        ),
        HASHER,
        local=A.node_id,
    )
    source, peer = replace(C, region=region), replace(B, region=peer_region)
    entry = subscribed(region)
    announce = replace(announce_info(3, TRACK, AnnounceKind.TRACK), source=C.node_id)
    for check, done in (
        ("import.subscribe", used.import_subscribe(entry, peer)),
        ("export.subscribe", used.export_subscribe(entry, peer)),
        ("import.announce", used.import_announce(announce, peer)),
        ("export.announce", used.export_announce(announce, peer)),
    ):
        explained = all(item.allowed for item in used.explain_entry(check, peer, source, TRACK))
        assert explained == (done is None)
