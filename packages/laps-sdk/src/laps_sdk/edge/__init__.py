"""The relay side of MoQT sessions: sessions, namespaces, tracks, subscriptions and FETCHes.

This room is the control plane of an Edge. It decides which session receives what, and programs the
forwarding plane (:mod:`laps_sdk.forwarding`). It never sees a byte of an object. Only ``server``
does I/O; all other modules get ``now`` as an argument and read no clock.

Layers, from top to bottom; a module imports only from below::

    server           EdgeServer: UDP socket, connections, turns
    relay            EdgeRelay: dispatches events, notices and timers; rows for the admin
    namespaces       PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE, SUBSCRIBE_TRACKS
    subscriptions    SUBSCRIBE and PUBLISH, of clients and of the relay; Top-N
    reports          the reports of players, which the relay consumes itself
    tracks           the table of tracks; FETCH and TRACK_STATUS
    admission        rates, caps, and what the authorizer grants
    state            tables, timers, events, and commands to sessions
    records          the rows of the tables: Client, Track, Source, Receiver, ...
    authorization    Action, Decision, Authorizer: the interface to a checker of tokens
    codes, ranges    error codes and properties between drafts; filters and ranges as locations
    tree             values by namespace
    events, settings what EdgeRelay reports, and what an operator can set

The way of a SUBSCRIBE::

    client                 EdgeServer         EdgeRelay                        publisher
      |--SUBSCRIBE-->  wire session --event-->  admission: rate, caps, grant
      |                                           |  allowed
      |                                           v
      |                                         subscriptions: Receiver, PENDING
      |                                           |--no source yet: our SUBSCRIBE-->|
      |                                           |<----------SUBSCRIBE_OK----------|
      |                                         Source and Receiver ESTABLISHED
      |                                           |
      |                                           +--add_ingress, add_egress--> forwarding plane
      |<--SUBSCRIBE_OK-- wire session <--command--'

The way of an object passes this room by::

    publisher --stream--> EdgePort --stream_data--> forwarding plane --write--> subscribers
                                                         |
    EdgeRelay <--notices: track ended, malformed, ...----'

Import from outside: ``EdgeRelay``, ``EdgeSettings`` and ``SessionInfo`` from here; ``server``,
``events``, ``reports``, ``authorization``, ``settings``, ``codes`` and ``tree`` by module. All else
is internal.

Specification: moq-transport-16, 5.1 (subscriptions), 8.5 (namespaces at relays), 9 (control
messages). Sections of moq-transport-18 are named where it differs. Top-N: docs/spec/top-n.md.
"""

from __future__ import annotations

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import EdgeSettings, SessionInfo

__all__ = ["EdgeRelay", "EdgeSettings", "SessionInfo"]
