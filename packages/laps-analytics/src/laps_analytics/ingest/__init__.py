"""Ingest: load files of relays into bronze and silver tables, each event once.

::

    files -> sources -> intake -> parse -> bronze -> rebuild / append -> silver
                          |                                |
                       journal                       clock, offsets
                 (state of ingest)            (clock errors of the relays)

:mod:`.run` processes one batch. :mod:`.stream` does so continuously, with the same steps.
:mod:`.compaction` merges small files while a stream runs. :mod:`.decode` reads compressed files,
:mod:`.qlog` reads traces, and :mod:`.facts` summarises a batch.

Other rooms may import ``run``, ``stream``, ``sources``, ``hours`` and ``journal``. The events are
specified in ``docs/reference/telemetry.md``.
"""
