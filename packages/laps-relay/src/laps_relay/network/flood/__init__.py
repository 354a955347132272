"""Flood: announce and subscribe entries, flooded between relays (laps-2, 5.2 to 5.4).

::

    ANNOUNCE_*, SUBSCRIBE_*          FloodTable (floods)                 users of entries
    of a session ----------------->  the entry with the newest  ------>  take_changes()
                                     stamp of each identity
                  source unknown  -> flood_waiting
                  advertiser lost -> flood_rests: a short hold-down
                  source was away -> flood_doubts: stale until repeated
                                           |
    flush(session) <--- flood_telling: what each session was sent and must be sent

Modules that other rooms import:

- ``floods``: :class:`~laps_relay.network.flood.floods.FloodTable`, ``AnnounceTable`` and
  ``SubscribeTable``. It owns ``flood_records``, ``flood_rests``, ``flood_doubts``,
  ``flood_telling`` and ``flood_waiting``.
- ``entries``: what announces and subscribes differ in.

Export rules and the messages to peers are above this room, in
``laps_relay.network.advertisements``. This room imports ``nodes``, ``settings`` and
``laps_relay.policy``.
"""
