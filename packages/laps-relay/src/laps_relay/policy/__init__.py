"""Administrative policy: who may peer, what may pass, along which ways.

A policy can only narrow: where it says nothing, everything is allowed.
"""

from laps_relay.policy.open_policy import OPEN_POLICY, OpenPolicy
from laps_relay.policy.rule_policy import RulePolicy

__all__ = ["OPEN_POLICY", "OpenPolicy", "RulePolicy"]
