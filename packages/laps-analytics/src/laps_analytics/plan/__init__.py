"""Plans: from the tables of a lake to signed plans, and from a plan to what it changed.

::

    lake -> columns -> observation -> assemble -> core -> signing -> plan file
                                         |
                                    constraints

    lake + plan -> adoption, before_after -> history

Nothing here needs a Spark session. :mod:`.core` is the planner itself. :mod:`.milp` computes the
exact optimum for comparison; :mod:`.rehearsal` runs a plan in the relay simulator.

Other rooms may import every module. The plan format is specified in ``docs/spec/plan.md``.
"""
