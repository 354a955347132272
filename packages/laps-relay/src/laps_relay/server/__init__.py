"""The relay process: sockets, turns, and the composition of a relay from its configuration.

A relay is put together once, and again in part when a reload changes its type::

    RelayApp (relay_app)
      |-- EdgeServer, EdgeRelay, Plane (laps_sdk)            clients
      |-- NetworkMember (member)                             peers; none if the relay is alone
      |     |-- NetworkPart, NetworkEdge (network_part)      Edge, Via, control server
      |     '-- StubPart (stub_part), JoinedEdge (member)    Stub
      |-- RelayMonitor, TrafficRecorder (monitor)            logs, metrics, telemetry
      |-- ClientDrain (client_drain)                         GOAWAY, waiting at the end
      '-- EdgeView (edge_view) --> laps_relay.admin          pages and API

One turn of the loop, with a packet of a client::

    EdgeServer --> EdgeRelay, Plane --> RelayApp._joined --> NetworkMember.joined --> PeerServer
                                   '--> RelayApp._turn ----> RelayMonitor.turn

``NetworkMember.joined`` settles the peer port only if there are events, control messages, or an
earlier timer: data between clients leaves the network alone.

Layers, the upper may import the lower::

    relay_app, workers                         one process; several processes on one port
    monitor
    edge_view
    client_drain, network_part, stub_part
    member                                     peers, and the clients in memory of an Edge
    plans                                      which plan the relay follows
    identity                                   who the relay is; files of the state directory
    auth, certificates                         tokens of clients; the TLS certificate

From outside import ``RelayApp``, ``StartError``, ``admin_token`` and ``auth_settings`` from here,
``workers``, ``certificates``, ``plans`` and ``edge_view.reachable``. A Stub's process imports no
core of the network: ``network_part`` is imported when a relay of another type is made. The peer
port follows docs/spec/laps-2.md, 4.
"""

from laps_relay.server.auth import auth_settings
from laps_relay.server.identity import StartError
from laps_relay.server.relay_app import RelayApp, admin_token

__all__ = ["RelayApp", "StartError", "admin_token", "auth_settings"]
