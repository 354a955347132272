"""Decisions of the client that need no I/O, no clock and no randomness.

::

    publishing    Numbering -> location of the next object    Delivery: does the receiver want it?
                  HeldObjects: what is sent again after a lost connection
    receiving     object -> Progress: new, duplicate, gaps -> Window: queue, pause or drop
    reporting     Playback -> records for the relay (docs/spec/reports.md)

- ``objects``: names, objects and discovery events as applications see them; object extensions.
- ``numbering``: group and object numbers of a publisher; the range that a receiver asked for.
- ``held``: the last objects of a publisher, and whether they have arrived.
- ``subscribe_options``: start, end and parameters of a SUBSCRIBE or FETCH; the fill level of a
  receive queue.
- ``progress``: which objects arrived, which are missing, which arrived twice.
- ``playback``: the state of a playback and the records made of it.

Times are arguments. Outside of ``laps_sdk.client`` only ``laps_sdk.cli`` imports these modules.
"""
