"""Builders of gold tables: functions from DataFrames to the DataFrame of one table.

::

    Silver, Dimensions  ->  traffic.paths_5m, viewers.viewers  ->  builders  ->  common.finish
                                  (shared inputs)                         (columns of the contract)

:func:`.common.longer` makes hours from minutes and days from hours. :func:`.common.finish` gives a
frame the columns of its contract.

Only :mod:`laps_analytics.gold` imports the builders. The exception is ``usage``, which the ``bill``
command reads.
"""
