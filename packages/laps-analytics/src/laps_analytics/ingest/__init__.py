"""Ingest: from the files that relays write to bronze and silver tables, each event once.

::

    files -> sources -> intake -> parse -> bronze -> rebuild / append -> silver
                          |                                |
                       journal                       clock, offsets
                (what was taken)             (time of relays, corrected)

:mod:`.run` does this once for a batch; :mod:`.stream` does it continuously, with the same steps.
:mod:`.compaction` keeps the number of files small while a stream runs.

Other rooms may import ``run``, ``stream``, ``sources``, ``hours`` and ``journal``. The events are
specified in ``docs/reference/telemetry.md``.
"""
