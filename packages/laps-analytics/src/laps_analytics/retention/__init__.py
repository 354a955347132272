"""Retention: removes the days of a lake that are older than its limits.

::

    limits, tables -> decide -> days to remove -> run -> lake

:mod:`.decide` chooses the days and touches no file. :mod:`.run` removes them, and continues after
it was killed. Other rooms may import both modules.
"""
