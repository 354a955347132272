"""What happens in a run: topology, clients, policies and faults, all drawn from a seed.

::

    seed --> scenario() --> Topology (shapes, backbones or a TOML file)
                       '--> Action, Action, ... (the time, the kind and the operands of each action)
                            added by narrow, steering, stubs, policies and restarts

``scenario`` is the entrance: ``scenario(seed)`` returns a ``Scenario``, which is plain data
(``model``). ``rules`` has the policy that invariants consult.
"""

from __future__ import annotations
