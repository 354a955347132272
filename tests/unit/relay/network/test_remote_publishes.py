"""Tracks of others for clients that watch."""

from __future__ import annotations

from laps_relay.network.bridge import RemotePublishes
from laps_sdk.edge.events import PrefixAdded, TrackAdded
from laps_wire.moqt.messages import Publish
from laps_wire.moqt.session import RequestReceived
from laps_wire.names import Namespace
from testkit.edge_client import ClientNet
from testkit.edge_net import NAMESPACE, TRACK, track_of
from testkit.plane import D18


def test_only_what_somebody_watches_is_asked_for() -> None:
    net = ClientNet()
    elsewhere = RemotePublishes(net.edge.relay, net.client)
    net.edge.listeners.append(lambda events: elsewhere.observe(net.now, events))
    deeper = track_of("x", b"deeper")
    elsewhere.add(net.now, TRACK)
    elsewhere.add(net.now, deeper)
    elsewhere.add(net.now, track_of("gone"))
    elsewhere.remove(track_of("gone"))
    assert net.take() == []
    watcher = net.edge.connect(D18)
    watcher.session.subscribe_namespace(Namespace.of(b"example.net"))
    net.world.settle()
    assert net.take() == []
    watcher.session.subscribe_tracks(NAMESPACE)
    net.world.settle()
    assert [call[1] for call in net.take()] == [TRACK, deeper]
    elsewhere.add(net.now, track_of("new"))
    assert [call[1] for call in net.take()] == [track_of("new")]
    net.accept(TRACK)
    message = watcher.one(RequestReceived).message
    assert isinstance(message, Publish)
    assert message.track == TRACK


def test_other_events_do_not_matter() -> None:
    net = ClientNet()
    elsewhere = RemotePublishes(net.edge.relay, net.client)
    elsewhere.add(net.now, TRACK)
    elsewhere.observe(
        net.now,
        [
            TrackAdded(track=TRACK, number=1),
            PrefixAdded(session=1, prefix=NAMESPACE, namespaces=True, tracks=False),
        ],
    )
    assert net.take() == []
