"""Builders of gold tables: functions from DataFrames to the DataFrame of one table.

::

    Silver, Dimensions  ->  hops, viewers  ->  one builder for each table  ->  common.finish
                           (shared inputs)                             (columns of the contract)

:mod:`.hops` and :mod:`.viewers` prepare what several tables read. :mod:`.rollup` makes hours from
minutes and days from hours. :func:`.common.finish` gives a frame the columns of its contract.

Only :mod:`laps_analytics.gold` imports the builders. The exception is ``usage``, which the ``bill``
command reads.
"""
