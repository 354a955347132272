"""Synthetic data: a network of relays, its demand and its telemetry, all made from a seed.

::

    backbone -> dataset -> simulation -> events -> telemetry files
                               |
                           conditions

:mod:`.demo` runs everything once: data, tables, report, plan, and what the plan gained.
:mod:`.telemetry` writes a dataset to a folder. :mod:`.planning` gives the same network to the
planner without errors of measurement.

Only the ``demo`` command, benchmarks and tests import this room.
"""
