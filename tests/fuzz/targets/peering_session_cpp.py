"""A session with a C++ relay under anything that a peer, a transport and time can do to it."""

from __future__ import annotations

from laps_wire.names import Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.session import CPP_16, CPP_18

from ._peering_session import COMMAND, DATA, EARLY, FIN, RESET, STAGES, one_script, script


def one_input(data: bytes) -> None:
    """Run one script; the highest bit of its first byte chooses the build."""
    one_script(CPP_18 if data[:1] > b"\x7f" else CPP_16, data)


def seeds() -> list[bytes]:
    """Both handshakes, and a life with everything in it."""
    info = cpp.NodeInfo(NodeId(9), cpp.NodeType.EDGE, b"relay-a")
    subscribe = cpp.SubscribeInfo(1, NodeId(9), 2, 3, 4, b"data")
    announce = cpp.AnnounceInfo(NodeId(9), 4, Namespace((b"demo",)), b"clk", 0)
    messages: list[cpp.Incoming] = [
        cpp.NodeInfoAdvertise(info),
        cpp.AnnounceInfoAdvertised(announce),
        cpp.SubscribeInfoAdvertised(subscribe),
        cpp.SubscribeNodeSetAdvertised(2, 2, (NodeId(1), NodeId(2))),
        cpp.SubscribeNodeSetAdvertised(2, 2, (NodeId(1),)),
        cpp.SubscribeNodeSetWithdrawn(2),
        cpp.SubscribeInfoWithdrawn(subscribe),
        cpp.AnnounceInfoWithdrawn(announce),
        cpp.NodeInfoWithdrawn(info),
        cpp.UnknownMessage(77, b"?"),
    ]
    connect = cpp.encode(cpp.Connect(cpp.PeerMode.BOTH, info), cpp.DRAFT16)
    accept = cpp.encode(cpp.ConnectResponse(0, info), cpp.DRAFT16)
    refuse = cpp.encode(cpp.ConnectResponse(2, None), cpp.DRAFT16)
    life = [(DATA, 0, cpp.encode(message, cpp.DRAFT16)) for message in messages]
    last = 2 * (STAGES - 1)
    return [
        script(1, (DATA, 0, connect), (FIN, 4, connect)),
        script(0, (DATA, 0, accept), (DATA, 0, life[0][2])),
        script(0, (DATA, 0, refuse)),
        script(last + 1, (EARLY, 2, bytes(5)), *life, (COMMAND, 1, b""), (RESET, 0, b"")),
        script(0x80 + last, *life),
    ]
