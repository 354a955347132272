"""Authenticated connections to relays (laps-2, 1 and 4; docs/explanation/peering-session.md).

A *session* is one peering connection; its number comes from the shell. A *peer* is the node at
the other end. Two nodes have one session that carries control, and any number that carry data::

    shell                        this room                             network, or a Stub
    poll_dials    <------------  Dialler  <--- contacts, wishes ------
    connection made ---------->  Peers
    bytes of control streams ->    |  one PeeringSession (laps_wire) for each connection
                                   |  Admission: proof, filter, key of the node, arbitration
    poll_transmit <------------    |
                                   '--- PeerUp, PeerDown, PeerRefused, session events --->
                                 Links: which connections lead to which node; data that
                                 arrives before the handshake is over
                                 ForeignPeer: takes a session that is no relay's of the network

Modules, which may all be imported from outside:

- ``peers``: :class:`~laps_sdk.peering.peers.Peers`, all sessions.
- ``dialler``: :class:`~laps_sdk.peering.dialler.Dialler`, whom to dial and when.
- ``links``: the table of connections. ``foreign_peers``: commands for a foreign peer's session.
- ``admission``: the decisions of a handshake; only ``peers`` uses it.
- ``events``: what ``Peers`` reports, ``Dial``, ``Refusal`` and the ``PeerAuthenticator`` interface.
- ``reports``: what a relay says of its peers to logs and telemetry.
- ``settings``, ``contacts``, ``rendezvous``: values that peers are offered, addresses, and hashing
  for choices that all relays make alike.
- ``server``, ``port``: the peer port on a UDP socket, and one connection of it. ``shell``: what
  they call on a relay.
- ``keys``: key files and X.509. Only this folder, ``server`` and ``port`` do I/O and read a clock.
"""
