"""The planner: pure functions of plain data, without Spark, clock or random numbers.

::

    reports -> estimates -> inputs -> placement -> compose -> Plan
                                      (drafts)     (change budget, capacity)

    Plan, inputs        -> verify  -> violations
    Plan, inputs        -> explain, evaluate
    Plan, parts, Plan   -> revert  -> Plan

:mod:`.verify` shares no code with the planner that it checks. Other rooms may import every module.
The plan format is specified in ``docs/spec/plan.md``.
"""
