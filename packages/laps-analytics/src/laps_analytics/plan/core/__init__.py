"""The planner: plain data in, plain data out; no Spark, no clock, no random numbers of its own.

::

    network, demand, rules -> placement -> repair -> compose -> Plan
                                  |           |
                                  +-- loads --+

    Plan, network, demand  -> verify (carried, forbidden) -> violations

:mod:`.verify` shares no code with the planner that it checks. :mod:`.explain` answers
questions about a plan. :mod:`.measure` and :mod:`.revert` judge a plan after it ran.

Other rooms may import every module except ``carried`` and ``forbidden``. The plan format is
specified in ``docs/spec/plan.md``.
"""
