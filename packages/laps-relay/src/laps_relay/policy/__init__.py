"""Policy: who may peer, what may pass, and along which paths.

A policy can only forbid: what no rule mentions is allowed. The page docs/explanation/policy-and-
steering.md explains it. ::

    TOML --> config --> Rules (rules, facts) ---> RulePolicy ----.
                                                  (rule_policy)  +--> Policy (interface)
                        no rules --> OpenPolicy -----------------'    asked by the network

    GET /v1/network/policy --> rules.rules_as_text
    laps-relay policy      --> rule_policy.explain: which rule decides, and why

Other packages import ``OPEN_POLICY``, ``OpenPolicy`` and ``RulePolicy`` from here, the ``Policy``
interface from ``interface``, ``explain`` from ``rule_policy``, and ``rules`` and ``facts``. The
simulator's mutants also patch classes of ``rule_policy``. No module here imports the network.
"""

from laps_relay.policy.interface import OPEN_POLICY, OpenPolicy
from laps_relay.policy.rule_policy import RulePolicy

__all__ = ["OPEN_POLICY", "OpenPolicy", "RulePolicy"]
