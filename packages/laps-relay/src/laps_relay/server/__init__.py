"""The relay process: sockets, turns, and the composition of a relay from its configuration.

A relay is put together once, and again in part when a reload changes its type::

    RelayApp (relay_app)
      |-- EdgeServer, EdgeRelay, Plane (laps_sdk)            clients
      |-- NetworkMember (member)                             peers; none if the relay is alone
      |     |-- NetworkPart (network_part) + NetworkEdge     Edge, Via, control server
      |     '-- StubPart (stub_part) + JoinedEdge            Stub
      |-- RelayMonitor (monitor), TrafficRecorder            logs, metrics, telemetry
      |-- ClientDrain (client_drain)                         GOAWAY, waiting at the end
      '-- EdgeView (edge_view) --> laps_relay.admin          pages and API

One turn of the loop, with a packet of a client::

    EdgeServer --> EdgeRelay, Plane --> RelayApp._joined --> NetworkMember.joined --> PeerServer
                                   '--> RelayApp._turn ----> RelayMonitor.turn

Layers, the upper may import the lower::

    relay_app, workers                         one process; several processes on one port
    monitor
    edge_view, traffic_recorder
    client_drain, network_part, stub_part
    member, network_edge
    identity, plans                            who the relay is; which plan it follows
    known_keys
    joined_edge, state_file                    clients in memory; files in the state directory
    parts                                      parts made from the configuration; StartError
    auth, certificates                         tokens of clients; the TLS certificate

From outside import ``RelayApp``, ``StartError``, ``admin_token`` and ``auth_settings`` from here,
``workers``, ``certificates``, ``plans`` and ``edge_view.reachable``. A Stub's process imports no
core of the network: ``network_part`` is imported when a relay of another type is made. The peer
port follows docs/spec/laps-2.md, 4.
"""

from laps_relay.server.parts import StartError, admin_token, auth_settings
from laps_relay.server.relay_app import RelayApp

__all__ = ["RelayApp", "StartError", "admin_token", "auth_settings"]
