"""A network of relays in one process, in virtual time, from a seed.

The same core as in a server (``laps_relay.network``) runs here without sockets and clocks.
What a run does follows from its seed alone, so a failure is a number that anybody can replay.
See docs/explanation/simulator.md.
"""

from __future__ import annotations
