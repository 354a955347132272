from __future__ import annotations

from laps_relay.admin.views import (
    RelayView,
    namespace_item,
    session_item,
    subscription_item,
    totals,
    track_item,
)
from laps_sdk.edge.events import NamespaceRow
from laps_wire.moqt.structures import Location
from testkit.relay_views import (
    NO_COUNTERS,
    TRACK,
    FakeView,
    connection_stats,
    session_info,
    session_row,
    subscription_row,
    track_row,
)


def test_a_session_with_and_without_its_connection() -> None:
    row = session_row(info=session_info(path="/\x1b", authority="relay"))
    bare = session_item(row, None, 50.0)
    assert (bare.age_seconds, bare.draft, bare.path) == (10.0, "moqt-16", "/\\x1b")
    assert bare.rtt_ms is None
    full = session_item(row, connection_stats(), 50.0)
    assert (full.rtt_ms, full.bytes_sent, full.queued_bytes) == (25.0, 100, 77)
    assert session_item(row, connection_stats(None), 50.0).rtt_ms is None


def test_a_track_in_its_text_form() -> None:
    item = track_item(track_row(1, NO_COUNTERS._replace(bytes_in=5), largest=Location(3, 4)))
    assert (item.track, item.namespace, item.name) == (str(TRACK), "example-canary", "video")
    assert (item.largest_group, item.largest_object, item.bytes_in) == (3, 4, 5)
    assert track_item(track_row()).largest_group is None


def test_receivers_and_namespaces_tell_how_long_they_may() -> None:
    item = subscription_item(subscription_row(), 50.0)
    assert (item.expires_seconds, item.objects, item.dropped_datagrams) == (10.0, 1, 7)
    bare = subscription_item(subscription_row(counted=False), 50.0)
    assert (bare.expires_seconds, bare.objects) == (None, 0)
    row = NamespaceRow(namespace=TRACK.namespace, session=1, expires=None)
    assert namespace_item(row, 50.0).expires_seconds is None
    row = NamespaceRow(namespace=TRACK.namespace, session=1, expires=51.0)
    assert namespace_item(row, 50.0).expires_seconds == 1.0


def test_sums() -> None:
    view: RelayView = FakeView()
    rows = [track_row(1, NO_COUNTERS._replace(bytes_out=5)), track_row(2)]
    sums = totals(view, rows)
    assert (sums.tracks, sums.subscriptions, sums.bytes_out, sums.sessions) == (2, 4, 5, 0)
