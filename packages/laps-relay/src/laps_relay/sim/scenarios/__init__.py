"""What happens in a run: topology, clients, policies and faults, all drawn from a seed.

::

    seed --> scenario() --> Topology (generated, a real backbone or a TOML file)
                       '--> Action, Action, ... (the time, the kind and the operands of each action)
                            added by features and policies

``scenario`` is the entrance: ``scenario(seed)`` returns a ``Scenario``, which is plain data
(``model``). ``policies`` has the policy that invariants consult.
"""

from __future__ import annotations
