"""Small networks of :mod:`testkit.relay_net` that several tests begin with."""

from __future__ import annotations

from laps_wire.peering.laps2 import RelayType
from testkit.relay_net import RelayNet

__all__ = ["chain", "pair", "ring", "square"]


def chain(*, reflect: bool = True) -> RelayNet:
    """Edge 1, a relay 2, Edge 3."""
    net = RelayNet()
    net.add(1)
    net.add(2, RelayType.VIA, reflect=reflect)
    net.add(3)
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    return net


def pair() -> RelayNet:
    """Edge 1 publishes, Edge 2 wants."""
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    return net


def ring() -> RelayNet:
    """Five relays in a ring with a chord between 1 and 3; the link 4-5 is slow."""
    net = RelayNet()
    for number in range(1, 6):
        net.add(number)
    for left, right in ((1, 2), (2, 3), (3, 4), (5, 1), (1, 3)):
        net.join(left, right)
    net.join(4, 5, delay=0.02)
    net.run(2)
    return net


def square() -> RelayNet:
    """Edges 1 and 4 at both ends of Vias 2 and 3."""
    net = RelayNet()
    net.add(1)
    net.add(4)
    for via in (2, 3):
        net.add(via, RelayType.VIA)
        net.join(1, via)
        net.join(via, 4)
    net.run()
    return net
