"""Deliberate breaks of what is between a Stub and its parents (see ``mutants``)."""

# ruff: noqa: SLF001 - what is broken here is inside

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Protocol

from laps_relay.network.relay import NetworkRelay
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.stub.stub_leaving import Leaving
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, RelayType

__all__ = ["stubs_asked", "stubs_leave_early", "stubs_told"]

_ANYBODY: Final = NodeId(0x64_0005_0000_FFFF)
"""The NIB takes no node 0."""


class Patching(Protocol):
    """Replaces attributes for a while."""

    def set(self, owner: Any, name: str, value: object) -> None:
        """Replace one."""


def stubs_told(patch: Patching) -> None:
    """A parent takes its Stub for a relay."""
    up = NetworkRelay._session_up

    def naive(self: Any, now: float, session: int, event: Any) -> None:
        up(self, now, session, event)
        if event.node.node.relay_type is RelayType.STUB:
            # It stands for any way in which a parent could take a Stub for a relay.
            info = replace(event.node, node=replace(event.node.node, relay_type=RelayType.VIA))
            info = replace(info, node=replace(info.node, node_id=_ANYBODY))
            self.nib.add_peer(now, _ANYBODY, info, srtt_us=10_000, forwards=True)

    patch.set(NetworkRelay, "_session_up", naive)


def stubs_asked(patch: Patching) -> None:
    """A parent asks its Stub for everything."""
    opened = StubParent.open

    def generous(self: StubParent, now: float, address: str = "stub") -> None:
        opened(self, now, address)
        for number in range(4):
            name = FullTrackName(Namespace.of(b"t%d" % number), b"")
            self.client.offer(now, AnnounceKind.NAMESPACE, name)

    patch.set(StubParent, "open", generous)


def stubs_leave_early(patch: Patching) -> None:
    """A Stub leaves its old parent as soon as the new one accepts."""

    def hasty(self: Leaving[Any], now: float, parent: Any, key: int) -> None:
        self._unwant(now, parent, key)

    patch.set(Leaving, "begin", hasty)
