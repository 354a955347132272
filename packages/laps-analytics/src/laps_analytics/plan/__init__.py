"""Plans: from the tables of a lake to a signed plan, and from a plan to its effect.

::

    lake -> observation -> assemble -> core -> signing -> plan file
                              |          |
                        constraints  simulation (laps-relay sim plan)

    lake + plan -> effect -> verdicts, history -> report

Nothing here needs a Spark session. :mod:`.core` is the planner itself. :mod:`.milp` computes the
exact optimum for comparison. :mod:`.simulation` runs a plan in the relay simulator. :mod:`.effect`
compares the time before and after a plan.

Other rooms may import every module. The plan format is specified in ``docs/spec/plan.md``.
"""
