"""Retention: remove the days of a lake that are older than their limits.

::

    limits, days of tables -> decide -> new horizon, kept days -> run -> commits, deleted files

:mod:`.decide` chooses the days and touches no file. :mod:`.run` removes them, and continues after
it was killed. Only the ``ingest`` and ``retain`` commands import this room. See
``docs/how-to/keep-a-lake-small.md``.
"""
