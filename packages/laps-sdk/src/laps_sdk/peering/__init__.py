"""Authenticated connections to other relays (laps-2, 1 and 4; docs/explanation/peering-session.md).

A *session* is one peering connection; the peer port numbers the sessions. A *peer* is the node at
the other end. Two nodes have one session that carries control, and any number that carry data::

    UDP socket          this room                                       network, or a Stub
    server --dial------ port.PeerRelay.poll_dials <---- Dialler <--- contacts, wanted nodes ---
       |
       '--> port -----> Peers: one PeeringSession (laps_wire) for each connection
              ^           |  Admission: proof, policy, key of the node, which connection has control
              |           '--- PeerUp, PeerDown, PeerRefused, events of the session --------->
              |         Links: which connections lead to which node; data that arrives before
              |                the handshake is complete
              '-------- poll_transmit <----- ForeignPeer: handles a session that is not of a relay
                                             of the network (Stub, parent, C++ relay)

All modules may be imported from outside:

- ``peers``: :class:`~laps_sdk.peering.peers.Peers`, all sessions.
- ``dialler``: :class:`~laps_sdk.peering.dialler.Dialler`, which nodes to dial and when.
- ``links``: the table of connections, foreign peers, and helpers to send to peers.
- ``admission``: the decisions of a handshake; only ``peers`` uses it.
- ``events``: what ``Peers`` reports, ``Dial``, ``Refusal`` and the interface ``PeerAuthenticator``.
- ``reports``: what a relay reports of its peers to logs and telemetry.
- ``settings``: the identity of a relay, the settings that it offers, and addresses of contacts.
- ``server``, ``port``: the peer port on a UDP socket, and one connection of it.
- ``keys``: key files and X.509. Only this folder and ``server`` do I/O and read a clock.
"""
