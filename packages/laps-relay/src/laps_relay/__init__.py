"""LAPS relay: the relay server, its network, its simulator and the ``laps-relay`` command.

Layers, the upper may import the lower::

    cli
    server
    admin, sim
    config, telemetry
    network
    cpp, peer_forwarding, policy, stubs

What a Stub needs is in :mod:`laps_sdk`, and the relay builds on it. All rooms of all packages are
drawn in docs/explanation/architecture.md. Import from the rooms: this package exports nothing.
"""
