"""What nodes say of themselves, signed (laps-2, 5.1): nobody else can say it.

::

    handshake        the peer does not use SIGNED_NODES, and we want it   refused
                     it does, and its own words are not signed            refused
    NODE_ADVERTISE   the signature does not hold, or is of another key    a lie: BAD_NODE
                     the certificate behind it has ended                  left out, and reported

The last one is not the fault of who passes it on: it checked the signature when it was good, and a
relay must not lose its peers for the certificate of a third one. Stubs say nothing of other nodes,
and C++ relays sign nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from laps_sdk.peering.events import NOT_NOW, NodeUnproved, PeerAuthenticator
from laps_sdk.peering.settings import PeeringSettings
from laps_wire.peering.errors import NotAuthorizedError
from laps_wire.peering.laps2 import Feature, NodeInfo, RelayType
from laps_wire.peering.session import AuthenticationRequired

__all__ = ["Judgement", "check_peer", "judge_nodes"]


class Judgement(NamedTuple):
    """What is left of some node information."""

    nodes: tuple[NodeInfo, ...]
    unproved: tuple[NodeUnproved, ...] = ()
    lie: str = ""
    """Not empty: the session ends, and nothing of it counts."""


def check_peer(
    authenticator: PeerAuthenticator, settings: PeeringSettings, question: AuthenticationRequired
) -> None:
    """Raise ``NotAuthorizedError`` if a peer could say anything of others."""
    info = question.peer_info
    if info is None or not question.transcript:
        return
    if RelayType.STUB in (info.node.relay_type, settings.relay_type):
        return
    if Feature.SIGNED_NODES not in question.features:
        if settings.signed_nodes:
            raise NotAuthorizedError("node information must be signed here (SIGNED_NODES)")
    elif refusal := authenticator.verify_node(info):
        # We would have to pass it on, and others would take us for the liar.
        raise NotAuthorizedError(f"node information: {refusal.reason} ({refusal.rule})")


def judge_nodes(authenticator: PeerAuthenticator, nodes: Iterable[NodeInfo]) -> Judgement:
    """What of it the nodes have said themselves."""
    kept: list[NodeInfo] = []
    unproved: list[NodeUnproved] = []
    for info in nodes:
        node, refusal = info.node.node_id, authenticator.verify_node(info)
        if refusal is None:
            kept.append(info)
        elif refusal.rule == NOT_NOW:
            unproved.append(NodeUnproved(node=node, reason=refusal.reason))
        else:
            return Judgement((), lie=f"node {node}: {refusal.reason} ({refusal.rule})")
    return Judgement(tuple(kept), tuple(unproved))
