"""What the parts of a client share."""

from __future__ import annotations

from laps_wire.peering.laps2 import SubscribeData
from testkit.bridges import key_of
from testkit.edge_client import ClientNet
from testkit.edge_net import TRACK


def test_a_track_is_wanted_until_no_part_wants_it() -> None:
    net = ClientNet()
    office = net.client._office
    key, one, two = key_of(TRACK), object(), object()
    assert office.key_of(TRACK) == key
    assert office.session is office.virtual.session
    data = SubscribeData()
    for part in (one, two, one):
        office.want(net.now, part, key, TRACK, data)
    assert [call[0] for call in net.take()] == ["wanted"] * 3
    office.unwant(net.now, one, key, TRACK)
    office.unwant(net.now, one, key, TRACK)
    assert net.take() == []
    office.unwant(net.now, two, key, TRACK)
    assert net.take() == [("unwanted", TRACK)]
    office.unwant(net.now, two, key, TRACK)
    assert net.take() == []
