"""Gold tables: one row for each answer, made from silver by contracts.

::

    silver  ->  recipes  ->  builders  ->  build  ->  gold tables of the lake
                   |                         |
             tables, families            inputs, kept
               (contracts)           (which days changed)

:mod:`.tables` and :mod:`.families` state the columns of each table. :mod:`.recipes` names the
inputs and the builder of each table. :mod:`.build` builds the days whose inputs changed.

Other rooms may import ``build``, ``dimensions``, ``kept``, ``inputs``, ``silver``,
``tables`` and ``builders.usage``. The tables are specified in ``docs/reference/gold-tables.md``.
"""
