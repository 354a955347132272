"""Synthetic data: a network of relays, its demand and its telemetry, all made from a seed.

::

    geography -> backbone -> config -> dataset -> simulation -> writer -> telemetry files
                    |                                 |
                 demand               conditions, control_plane, viewers, incidents, events

:mod:`.demo` runs everything once: data, tables, report, plan, and what the plan gained.
:mod:`.gain` measures that. :mod:`.planning` gives the same network to the planner without errors of
measurement.

Only the ``demo`` command, benchmarks and tests import this room.
"""
