"""Gold tables: built from silver by contracts, each for one question of an operator.

::

    silver  ->  recipes  ->  builders  ->  build  ->  gold tables of the lake
                   |                         |
           tables (contracts)           dimensions

:mod:`.tables` states the columns of each table. :mod:`.recipes` names the inputs and the builder of
each table. :mod:`.build` builds the days whose inputs changed. :mod:`.dimensions` has what
telemetry lacks: tenants, classes and capacities.

Other rooms may import ``build``, ``dimensions``, ``silver``, ``tables`` and ``builders.usage``. The
tables are specified in ``docs/reference/gold-tables.md``.
"""
