"""Whether a relay follows a plan: signature, time, version, Vias, policy; and for how long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from laps_relay.config import RelayConfig
from laps_relay.network.settings import NO_PLAN, Plan
from laps_relay.server.identity import StartError
from laps_relay.server.plans import CHECK_INTERVAL, Followed, PlanKeeper, PlanMemory, read_plan_keys
from laps_wire.nodeid import NodeId
from laps_wire.plan import ClassRule, HardConstraints
from laps_wire.plan import Plan as WirePlan
from laps_wire.telemetry import PolicyApplied
from testkit.signed_plans import HOUR_US, Signer, a_plan, an_entry

ME, V, W = NodeId(1), NodeId(2), NodeId(3)
T0 = 1_700_000_000_000_000
SIGNER = Signer()


class FakeRelay:
    node_id = ME

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.faults: dict[NodeId, str] = {}
        self.places: dict[NodeId, tuple[str, str]] = {}

    def against_via(self, via: NodeId, region: str, scope: str) -> str | None:
        return self.faults.get(via)

    def place_of(self, node: NodeId) -> tuple[str, str]:
        return self.places.get(node, ("", ""))

    def set_plan(self, now: float, plan: Plan) -> None:
        self.plans.append(plan)


class Kept:
    def __init__(self, memory: PlanMemory | None = None) -> None:
        self.relay = FakeRelay()
        self.told: list[PolicyApplied] = []
        keys = {SIGNER.id: SIGNER.public}
        self.keeper = PlanKeeper(self.relay, self.told.append, keys, memory)

    def offer(self, text: bytes | str, *, at: int = T0) -> str | None:
        return self.keeper.offer(0.0, at, text, "admin")

    @property
    def words(self) -> list[str]:
        return [record.outcome for record in self.told]


PLAN = a_plan([an_entry(ME, V, tracks=(7,), fallback=W), an_entry(W, V)], now_us=T0)


def test_a_good_plan_is_followed_and_only_our_entries_count() -> None:
    kept = Kept()
    assert kept.offer(SIGNER.sign(PLAN)) is None
    assert kept.relay.plans == [Plan(tracks={(7, "eu"): V})]
    assert (kept.told[0].plan_id, kept.told[0].plan_version, kept.words) == (
        "world",
        1,
        ["accepted"],
    )
    state = kept.keeper.state()
    assert (state.id, state.version, state.entries, state.source) == ("world", 1, 1, "admin")


def test_what_is_said_of_a_class_is_followed_too() -> None:
    kept = Kept()
    assert kept.offer(SIGNER.sign(a_plan([an_entry(ME, V)], now_us=T0))) is None
    assert kept.relay.plans == [Plan(classes={("", "eu"): V})]


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        (b"{}", T0, "format: missing"),
        (SIGNER.sign(PLAN).replace(b'"version":1', b'"version":2'), T0, "its signature is wrong"),
        (SIGNER.sign(PLAN).replace(SIGNER.id.encode(), b"0" * 16), T0, "not one of plan.keys"),
        (SIGNER.sign(PLAN), T0 + HOUR_US, "it has expired"),
        (SIGNER.sign(PLAN), T0 - HOUR_US, "made in the future"),
    ],
)
def test_a_plan_that_is_not_to_be_trusted_is_refused(text: bytes, at: int, reason: str) -> None:
    kept = Kept()
    found = kept.offer(text, at=at)
    assert found is not None
    assert reason in found
    assert kept.relay.plans == []
    assert kept.words == ["refused"]
    assert kept.told[0].reason == found
    assert kept.keeper.state().refusal == found


def test_without_keys_nobody_is_trusted() -> None:
    kept = Kept()
    kept.keeper.trust({})
    assert kept.offer(SIGNER.sign(PLAN)) == "no key is trusted: set plan.keys"


def test_versions_only_grow() -> None:
    kept = Kept()
    second = replace(PLAN, version=2)
    assert kept.offer(SIGNER.sign(second)) is None
    assert kept.offer(SIGNER.sign(second)) is None  # the same again is no news
    assert kept.words == ["accepted"]
    assert kept.offer(SIGNER.sign(PLAN)) == "version 2 was followed already"
    other = replace(second, entries=())
    assert kept.offer(SIGNER.sign(other)) == "another plan with version 2 was followed already"
    assert kept.keeper.state().version == 2
    # Also when it is not in force any more: what was dropped does not come back.
    assert kept.keeper.drop(0.0, "no")
    assert kept.offer(SIGNER.sign(second)) == "another plan with version 2 was followed already"
    assert kept.offer(SIGNER.sign(replace(PLAN, version=3))) is None


def test_series_are_apart_and_not_remembered_for_ever() -> None:
    kept = Kept()
    for number in range(70):
        plan = replace(PLAN, id=f"series {number}", version=5)
        assert kept.offer(SIGNER.sign(plan)) is None
    assert kept.offer(SIGNER.sign(replace(PLAN, id="series 69", version=4))) is not None
    assert kept.offer(SIGNER.sign(replace(PLAN, id="series 0", version=4))) is None


@pytest.mark.parametrize("node", [V, W])
def test_a_via_or_fallback_that_is_unknown_or_forbidden_refuses_the_plan(node: NodeId) -> None:
    kept = Kept()
    kept.relay.faults = {node: "nobody here knows this relay"}
    assert kept.offer(SIGNER.sign(PLAN)) == f"{node} towards eu: nobody here knows this relay"


def ruled(**rule: Any) -> WirePlan:
    return replace(PLAN, constraints=HardConstraints(classes={"": ClassRule(**rule)}))


@pytest.mark.parametrize(
    ("rule", "place", "fault"),
    [
        ({"deny_countries": ("CA",)}, ("eu", "CA"), "it stands in CA, which the plan itself"),
        ({"allow_countries": ("DE",)}, ("eu", "FR"), "it stands in FR, which the plan itself"),
        ({"via_regions": ("us",)}, ("eu", "DE"), "it stands in eu, which the plan itself"),
        ({"deny_countries": ("CA",), "allow_countries": ("DE",)}, ("eu", "DE"), None),
        ({"via_regions": ("eu",)}, ("eu", "CA"), None),
        # What nobody says is not held against it.
        ({"allow_countries": ("DE",), "via_regions": ("us",)}, ("", ""), None),
    ],
)
@pytest.mark.parametrize("node", [V, W])
def test_a_plan_that_breaks_its_own_word_is_refused(
    rule: dict[str, Any], place: tuple[str, str], fault: str | None, node: NodeId
) -> None:
    kept = Kept()
    kept.relay.places = {node: place}
    found = kept.offer(SIGNER.sign(ruled(**rule)))
    if fault is None:
        assert found is None
    else:
        assert (found or "").startswith(f"{node} towards eu: {fault}")


def test_a_via_that_moves_to_where_the_plan_does_not_allow_is_left_for_its_fallback() -> None:
    kept = Kept()
    assert kept.offer(SIGNER.sign(ruled(deny_countries=("CA",)))) is None
    kept.relay.places = {V: ("eu", "CA")}
    kept.keeper.tick(0.0, T0)
    assert kept.relay.plans[-1] == Plan(tracks={(7, "eu"): W})


def test_a_class_that_must_have_a_second_way_has_one() -> None:
    kept = Kept()
    assert kept.offer(SIGNER.sign(ruled(disjoint=True))) is None
    lone = a_plan([an_entry(ME, V, tracks=(7,)), an_entry(W, V)], now_us=T0)
    rule = HardConstraints(classes={"": ClassRule(disjoint=True)})
    found = Kept().offer(SIGNER.sign(replace(lone, constraints=rule)))
    assert found == "0.0:0.2 towards eu: no second way, and the plan says that the class has one"
    # Entries of others are theirs to check.
    theirs = replace(lone, constraints=rule, entries=lone.entries[1:])
    assert Kept().offer(SIGNER.sign(theirs)) is None


def test_a_restart_neither_lets_an_older_plan_in_nor_keeps_the_one_in_force_out(
    tmp_path: Path,
) -> None:
    memory = PlanMemory.of(tmp_path / "state", ME)
    third = replace(PLAN, version=3)
    assert Kept(memory).offer(SIGNER.sign(third)) is None
    again = Kept(memory)
    assert again.offer(SIGNER.sign(replace(PLAN, version=2))) == "version 3 was followed already"
    other = replace(third, entries=())
    assert again.offer(SIGNER.sign(other)) == "another plan with version 3 was followed already"
    assert again.offer(SIGNER.sign(third)) is None
    # What was dropped, or gave way to another series, does not come back, either.
    assert again.keeper.drop(0.0, "no")
    assert Kept(memory).offer(SIGNER.sign(third)) is not None
    last = Kept(memory)
    assert last.offer(SIGNER.sign(replace(PLAN, version=4))) is None
    assert last.offer(SIGNER.sign(replace(PLAN, id="other"))) is None
    assert Kept(memory).offer(SIGNER.sign(replace(PLAN, version=4))) is not None
    assert Kept(memory).offer(SIGNER.sign(replace(PLAN, id="other"))) is None


def test_a_state_directory_that_cannot_be_written_is_named_and_stops_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    kept = Kept(PlanMemory.of(tmp_path / "fresh", ME))
    kept.keeper._memory = PlanMemory(tmp_path / "file" / "plans.json")
    assert kept.offer(SIGNER.sign(PLAN)) is None
    assert "versions are forgotten at a restart" in kept.keeper.state().refusal


def test_it_ends_by_itself() -> None:
    kept = Kept()
    kept.offer(SIGNER.sign(PLAN))
    assert kept.keeper.tick(0.0, T0) == CHECK_INTERVAL
    assert kept.keeper.tick(0.0, T0 + HOUR_US - 1_000_000) == 1.0
    assert kept.keeper.tick(0.0, T0 + HOUR_US) is None
    assert kept.relay.plans[-1] is NO_PLAN
    assert kept.words == ["accepted", "expired"]
    assert kept.keeper.state().id == ""
    assert not kept.keeper.drop(0.0, "again")


def test_the_fallback_is_taken_while_the_via_is_gone_and_nothing_without_both() -> None:
    kept = Kept()
    kept.offer(SIGNER.sign(PLAN))
    kept.relay.faults = {V: "it drains"}
    kept.keeper.tick(0.0, T0)
    assert kept.relay.plans[-1] == Plan(tracks={(7, "eu"): W})
    kept.relay.faults = {V: "it drains", W: "gone"}
    kept.keeper.tick(0.0, T0)
    assert kept.relay.plans[-1] == Plan()
    kept.relay.faults = {}
    kept.keeper.tick(0.0, T0)
    assert kept.relay.plans[-1] == Plan(tracks={(7, "eu"): V})
    before = len(kept.relay.plans)
    kept.keeper.tick(0.0, T0)
    assert len(kept.relay.plans) == before  # steering is not asked to look again for nothing


def test_a_file_waits_for_its_vias_and_is_dropped_with_its_setting(tmp_path: Path) -> None:
    kept = Kept()
    file = tmp_path / "plan.json"
    assert "No such file" in (kept.keeper.load(0.0, T0, file) or "")
    assert (kept.told[-1].outcome, kept.told[-1].plan_id) == ("refused", "")
    file.write_bytes(b"[]")
    assert "is not an object" in (kept.keeper.load(0.0, T0, file) or "")
    file.write_bytes(SIGNER.sign(PLAN))
    kept.relay.faults = {V: "nobody here knows this relay"}
    assert kept.keeper.load(0.0, T0, file) is None
    assert kept.keeper.state().refusal.startswith("waits: 0.0:0.2 towards eu")
    assert kept.keeper.tick(0.0, T0) == CHECK_INTERVAL
    kept.relay.faults = {}
    assert kept.keeper.tick(0.0, T0) == CHECK_INTERVAL
    assert kept.keeper.state().source == str(file)
    assert kept.words == ["refused", "refused", "accepted"]
    assert kept.keeper.load(0.0, T0, None) is None
    assert kept.words[-1] == "reverted"
    assert kept.keeper.tick(0.0, T0) is None


def test_a_plan_of_the_admin_outlives_a_reload_without_a_file() -> None:
    kept = Kept()
    kept.offer(SIGNER.sign(PLAN))
    assert kept.keeper.load(0.0, T0, None) is None
    assert kept.keeper.state().id == "world"


def test_keys_are_public_ed25519_keys(tmp_path: Path) -> None:
    assert list(read_plan_keys([SIGNER.file(tmp_path)])) == [SIGNER.id]
    with pytest.raises(StartError, match="No such file"):
        read_plan_keys([tmp_path / "missing.pem"])
    (tmp_path / "text.pem").write_text("hello", encoding="ascii")
    with pytest.raises(StartError, match="no public key"):
        read_plan_keys([tmp_path / "text.pem"])
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "p256.pem").write_bytes(pem)
    with pytest.raises(StartError, match="no Ed25519 key"):
        read_plan_keys([tmp_path / "p256.pem"])


def test_a_file_without_keys_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"set plan\.keys"):
        RelayConfig.model_validate({"plan": {"file": "plan.json"}})


ROWS = {"world": Followed(7, "ab" * 32), "\u00e9": Followed(2, "")}


def test_what_is_kept_is_read_again_and_nodes_do_not_share_it(tmp_path: Path) -> None:
    memory = PlanMemory.of(tmp_path / "made", NodeId(1))
    assert memory.load() == {}
    assert memory.save(ROWS) is None
    assert memory.load() == ROWS
    assert PlanMemory.of(tmp_path / "made", NodeId(2)).load() == {}
    assert memory.save({}) is None
    assert memory.load() == {}
    assert [path.name for path in (tmp_path / "made").iterdir()] == [memory.path.name]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 1}', '{"a": {"version": "x", "plan": ""}}', '{"a": {}}', "\u00e9"]
)
def test_a_file_that_is_something_else_stops_the_start(tmp_path: Path, text: str) -> None:
    memory = PlanMemory.of(tmp_path, NodeId(1))
    memory.path.write_text(text, encoding="utf-8")
    with pytest.raises(StartError, match="is not a record of plans: remove it"):
        memory.load()


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    inside = PlanMemory(tmp_path / "file" / "plans.json")
    assert (inside.save(ROWS) or "").startswith(f"{inside.path}: ")
    with pytest.raises(StartError, match="Not a directory"):
        inside.load()
    folder = PlanMemory(tmp_path / "folder")
    folder.path.mkdir()
    assert folder.save(ROWS) is not None
    assert list(tmp_path.glob(".folder*")) == []
