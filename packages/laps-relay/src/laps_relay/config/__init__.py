"""The configuration of a relay: its models, where values come from, and reports of mistakes.

::

    default < relay.toml < LAPS_... variables < options      sources: key, value, place
                     |
                     v
    load: all values --> model.RelayConfig (network, limits) --> mapping --> settings of the parts
      '--> ConfigError: every mistake, with its place and a correction

    policy.toml --> policy_file --> policy.PolicyModel --> laps_relay.policy.rules.Rules

Layers, the upper may import the lower::

    load, mapping, policy_file
    policy_rest, sources
    model, policy
    limits, network
    base, fields, units

From outside import the names below, ``mapping``, ``policy_file.load_policy``,
``policy.namespace_of``, and single models of ``model`` and ``network``. Keys, defaults and
life cycles are in docs/reference/configuration.md, which is made from the models.
"""

from laps_relay.config.load import (
    Changes,
    Loaded,
    compare,
    json_schema,
    leaves,
    load,
    markdown,
    shown,
)
from laps_relay.config.model import RelayConfig
from laps_relay.config.sources import ConfigError, Problem

__all__ = [
    "Changes",
    "ConfigError",
    "Loaded",
    "Problem",
    "RelayConfig",
    "compare",
    "json_schema",
    "leaves",
    "load",
    "markdown",
    "shown",
]
