from __future__ import annotations

import pytest

from laps_sdk.peering.events import NOT_NOW, NodeUnproved, Refusal
from laps_sdk.peering.settings import PeeringSettings
from laps_sdk.peering.signed_nodes import Judgement, check_peer, judge_nodes
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import NotAuthorizedError
from laps_wire.peering.laps2 import (
    Direction,
    Feature,
    Mode,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    RelayType,
    Stamp,
)
from laps_wire.peering.session import AuthenticationRequired, AuthenticationStep
from testkit.peer_nodes import ToyAuthenticator

EDGE, STUB = RelayType.EDGE, RelayType.STUB
SIGNED = frozenset({int(Feature.SIGNED_NODES)})


class Keys(ToyAuthenticator):
    """The certificate of some nodes has ended."""

    def __init__(self, *ended: int) -> None:
        super().__init__(7)
        self.ended = ended

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        if info.node.node_id in self.ended:
            return Refusal(NOT_NOW, "over")
        return super().verify_node(info)


def words(number: int, relay_type: RelayType = EDGE, signature: bytes = b"secret") -> NodeInfo:
    node = NodeSelf(NodeId(number), relay_type, Stamp(1, 1))
    return NodeInfo(node, NodeSignature(3, b"f" * 32, signature))


def question(
    info: NodeInfo | None,
    features: frozenset[int] = frozenset(),
    transcript: bytes = b"what was said",
) -> AuthenticationRequired:
    return AuthenticationRequired(
        step=AuthenticationStep.VERIFY,
        peer=NodeId(1),
        peer_info=info,
        mode=Mode.BOTH,
        direction=Direction.BIDIRECTIONAL,
        transcript=transcript,
        features=features,
    )


WANTED = PeeringSettings(signed_nodes=True)
PLAIN = PeeringSettings()


@pytest.mark.parametrize(
    ("settings", "asked", "reason"),
    [
        (WANTED, question(words(1)), "must be signed here"),
        (WANTED, question(words(1, signature=b""), SIGNED), "not its own words"),
        (PLAIN, question(words(1, signature=b""), SIGNED), "not its own words"),
        (WANTED, question(words(1), SIGNED), ""),
        (PLAIN, question(words(1, signature=b"")), ""),
        # Stubs say nothing of others, and C++ relays know no proofs.
        (WANTED, question(words(0, STUB)), ""),
        (PeeringSettings(relay_type=STUB, signed_nodes=True), question(words(1)), ""),
        (WANTED, question(words(1), transcript=b""), ""),
        (WANTED, question(None), ""),
    ],
)
def test_who_could_say_anything_of_others_is_refused(
    settings: PeeringSettings, asked: AuthenticationRequired, reason: str
) -> None:
    if reason:
        with pytest.raises(NotAuthorizedError, match=reason):
            check_peer(Keys(), settings, asked)
    else:
        check_peer(Keys(), settings, asked)


def test_what_nodes_have_said_themselves_counts() -> None:
    good, other, bad = words(1), words(2), words(3, signature=b"mine")
    assert judge_nodes(Keys(), [good, other]) == Judgement((good, other))
    assert judge_nodes(Keys(), []) == Judgement(())
    found = judge_nodes(Keys(), [good, bad, other])
    assert found == Judgement((), lie="node 0.0:0.3: not its own words (signature)")


def test_a_certificate_that_has_ended_is_nobodys_lie() -> None:
    good, late = words(1), words(2)
    found = judge_nodes(Keys(2), [late, good])
    assert found == Judgement((good,), (NodeUnproved(node=NodeId(2), reason="over"),))
