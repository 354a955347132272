"""A laps-2 peering session under anything that a peer, a transport and time can do to it."""

from __future__ import annotations

import json
from pathlib import Path

from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.laps2 import Bases, Direction, Mode
from laps_wire.peering.session import LAPS2
from testkit.peering_pair import node

from ._peering_session import COMMAND, DATA, EARLY, FIN, STAGES, TIME, one_script, script

_VECTORS = Path(__file__).parents[2] / "vectors" / "laps2.json"


def one_input(data: bytes) -> None:
    """Run one script."""
    one_script(LAPS2, data)


def seeds() -> list[bytes]:
    """A handshake, a life with everything in it, and each vector in each state."""
    a, b = NodeId(1), NodeId(2)
    connect = laps2.Connect(
        (0x200,), (), Mode.BOTH, Direction.BIDIRECTIONAL, bytes(32), (0,), node(10)
    )
    proof = laps2.Proof(Mode.BOTH, Direction.BIDIRECTIONAL, laps2.NO_EVIDENCE)
    life = [
        (EARLY, 1, bytes(9)),
        (DATA, 0, laps2.encode(laps2.SyncBegin(Bases.ALL))),
        (DATA, 0, laps2.encode(laps2.NodeAdvertise((node(1),)))),
        (DATA, 0, laps2.encode(laps2.SnsAdvertise(1, 1, 0, (a,)))),
        (FIN, 0, laps2.encode(laps2.SyncEnd(Bases.ALL))),
        (DATA, 4, laps2.encode(laps2.ControlLatch(1))),
        (COMMAND, 3, b""),
        (DATA, 4, laps2.encode(laps2.SyncRequest(Bases.SNS))),
        (DATA, 4, laps2.encode(laps2.SyncBegin(Bases.SNS))),
        (DATA, 4, laps2.encode(laps2.SnsAdvertise(1, 2, 0, (a, b)))),
        (DATA, 4, laps2.encode(laps2.SyncEnd(Bases.SNS))),
        (DATA, 4, laps2.encode(laps2.Drain(1000))),
        (TIME, 2, b""),
    ]
    listener, last = 1, 2 * (STAGES - 1)
    out = [
        script(listener, (DATA, 0, laps2.encode(connect) + laps2.encode(proof))),
        script(listener + last, *life),
    ]
    vectors = json.loads(_VECTORS.read_text())["messages"]
    for index, vector in enumerate(vectors):
        stage = index % (2 * STAGES)
        out.append(script(stage, (DATA, 0, bytes.fromhex(vector["hex"]))))
    return out
