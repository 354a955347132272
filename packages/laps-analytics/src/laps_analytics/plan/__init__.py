"""Plans: from the tables of a lake to a signed plan, and from a plan to its effect.

::

    lake -> columns -> observation -> assemble -> core -> signing -> plan file
                                         |          |
                          constraints, demand_estimate  simulation (laps-relay sim plan)

    lake + plan -> adoption, before_after -> history -> report

Nothing here needs a Spark session. :mod:`.core` is the planner itself. :mod:`.milp` computes the
exact optimum for comparison. :mod:`.simulation` runs a plan in the relay simulator.

Other rooms may import every module. The plan format is specified in ``docs/spec/plan.md``.
"""
