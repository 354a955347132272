"""Prometheus metrics, in a registry of their own. Names are ``laps_<noun>_<unit>``.

Events are counted as they happen. The sampler reads tables and the counters of the planes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Metrics:
    """All metrics that ``/metrics`` shows."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.info = gauge("laps_relay_info", "Always 1; the labels say what runs.", "version")
        self.ready = gauge("laps_relay_ready", "Whether clients are taken.")
        self.start_seconds = gauge("laps_start_time_seconds", "When the relay started, Unix time.")
        self.certificate_seconds = gauge(
            "laps_certificate_expiry_seconds", "When the certificate ends, Unix time."
        )
        # Tables
        self.sessions = gauge("laps_sessions_open", "MoQT sessions.", "draft", "transport")
        self.tracks = gauge("laps_tracks_known", "Tracks.")
        self.subscriptions = gauge("laps_subscriptions_open", "Receivers of tracks.")
        self.namespaces = gauge("laps_namespaces_published", "Published namespaces.")
        self.cache_bytes = gauge("laps_cache_bytes", "Payload bytes in the cache.")
        self.cache_objects = gauge("laps_cache_objects", "Objects in the cache.")
        self.queued_bytes = gauge("laps_egress_queued_bytes", "Bytes that wait for slow clients.")
        # Events
        self.sessions_opened = counter("laps_sessions_opened", "Sessions that sent SETUP.", "draft")
        self.sessions_closed = counter("laps_sessions_closed", "Sessions that ended.", "by")
        self.sessions_faulted = counter(
            "laps_sessions_faulted", "Sessions closed for breaking the protocol.", "code"
        )
        self.requests_denied = counter(
            "laps_requests_denied", "Requests that were rejected.", "kind", "code"
        )
        self.fetches = counter("laps_fetches_answered", "Fetches, by how they ended.", "outcome")
        self.subscribers = counter("laps_subscribers_added", "Receivers that began.")
        self.publishers = counter("laps_publishers_added", "Publishers that began.")
        self.reports_taken = counter("laps_reports_taken", "Reports of players that were taken.")
        self.reports_refused = counter(
            "laps_reports_refused", "Reports of players that were refused.", "reason"
        )
        # Totals, from the sampler
        self.received_bytes = counter("laps_received_bytes", "Object bytes received.")
        self.sent_bytes = counter("laps_sent_bytes", "Object bytes sent.")
        self.received_objects = counter("laps_received_objects", "Objects received.")
        self.sent_objects = counter("laps_sent_objects", "Objects sent.")
        self.dropped_objects = counter("laps_dropped_objects", "Objects dropped for slowness.")
        self.dropped_bytes = counter("laps_dropped_bytes", "Bytes dropped for slowness.")
        self.duplicate_objects = counter("laps_duplicate_objects", "Objects that came twice.")
        # The network
        self._show_tables(gauge)
        self.sets_refused = counter(
            "laps_sets_refused", "Sets of peers with targets that are not served.", "reason"
        )
        self.peers_opened = counter("laps_peers_opened", "Peering sessions that began.", "type")
        self.peers_closed = counter("laps_peers_closed", "Peering sessions that ended.", "code")
        self.peers_refused = counter("laps_peers_refused", "Handshakes that failed.", "code")
        self.peers_faulted = counter(
            "laps_peers_faulted", "Peers closed for breaking the protocol.", "code"
        )
        self.dials = counter("laps_peers_dialled", "Connections to other relays.", "outcome")
        self.nodes_suspected = counter(
            "laps_nodes_suspected", "Node information that was not believed."
        )
        self.routes_changed = counter("laps_routes_changed", "Changes of a best way.")
        self.subscribes_refused = counter(
            "laps_subscribes_refused", "Subscribes that were refused.", "code"
        )
        self.network_bytes = counter(
            "laps_network_bytes", "Data bytes between relays.", "direction"
        )
        self.network_streams = counter(
            "laps_network_streams", "Data streams between relays.", "direction"
        )
        self._count_losses(counter)
        # Authorization and telemetry
        self.auth_decisions = counter("laps_auth_decisions", "Requests judged.", "outcome")
        self.auth_signatures = counter("laps_auth_signatures", "Token signatures checked.")
        self.telemetry_records = counter(
            "laps_telemetry_records", "Telemetry records, by what became of them.", "outcome"
        )

    def _show_tables(self, gauge: Callable[..., Gauge]) -> None:
        """Make the gauges of the network's tables and connections."""
        self.peers = gauge("laps_peers_open", "Sessions with other relays.", "type")
        self.contacts_unreached = gauge(
            "laps_contacts_unreached", "Configured connections to other relays that are not there."
        )
        self.nodes = gauge("laps_nodes_known", "Nodes in the node information base.")
        self.network_announces = gauge("laps_network_announces_known", "Announces of the network.")
        self.network_subscribes = gauge(
            "laps_network_subscribes_known", "Subscribes of the network."
        )
        self.sets = gauge("laps_sets_open", "Subscriber node sets.", "direction")
        self.fib_entries = gauge("laps_fib_entries", "Entries of the FIB.")
        self.held_bytes = gauge("laps_held_bytes", "Bytes that wait for their set.")

    def _count_losses(self, counter: Callable[..., Counter]) -> None:
        """Make the counters of what relays lose or refuse between them."""
        self.network_dropped = counter(
            "laps_network_dropped_streams", "Data streams given up, by why.", "reason"
        )
        self.network_dropped_datagrams = counter(
            "laps_network_dropped_datagrams", "Datagrams of data given up, by why.", "reason"
        )
        self.network_unknown_kinds = counter(
            "laps_network_unknown_kinds", "Streams and datagrams between relays of no known kind."
        )
        self.hash_collisions = counter(
            "laps_hash_collisions", "Names refused because another one has the same hash."
        )

    def render(self) -> bytes:
        """Return the text for a scrape."""
        return generate_latest(self.registry)
