"""Ingest: load files of relays into bronze and silver tables, each event once.

::

    files -> intake -> bronze -> silver_hours -> silver tables
               |                      |
            journal             silver, clock
       (state of ingest)   (rows, clock errors of the relays)

:mod:`.run` processes one batch. :mod:`.stream` does so continuously, with the same steps.
:mod:`.compaction` merges small files while a stream runs. :mod:`.qlog` reads traces.

Other rooms may import ``run``, ``stream``, ``intake``, ``hours`` and ``journal``. The events are
specified in ``docs/reference/telemetry.md``.
"""
