"""The planner: pure functions of plain data, without Spark, clock or random numbers.

::

    network, demand, rules -> placement -> repair -> compose -> Plan
                                  |           |
                                  +-- loads --+

    reports -> trust, predict -> network          (called by plan.assemble)
    Plan, network, demand     -> verify  -> violations
    Plan, network, demand     -> explain, evaluate, baselines
    windows before and after  -> measure -> revert

:mod:`.verify` shares no code with the planner that it checks. Other rooms may import every module.
The plan format is specified in ``docs/spec/plan.md``.
"""
