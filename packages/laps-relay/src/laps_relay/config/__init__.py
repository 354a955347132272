"""The configuration of a relay: its models, where values come from, and reports of mistakes.

::

    default < relay.toml < LAPS_... variables < options      load: key, value, place
                     |
                     v
    load: all values --> model.RelayConfig (network) --> mapping --> settings of the parts
      '--> ConfigError: every mistake, with its place and a correction

    policy.toml --> policy.PolicyModel --> laps_relay.policy.rules.Rules

Layers, the upper may import the lower::

    mapping, policy
    load
    model
    network
    fields

From outside import the names below, ``mapping``, ``policy.load_policy``, ``policy.namespace_of``,
and single models of ``model`` and ``network``. Keys, defaults and life cycles are in
docs/reference/configuration.md, which is made from the models.
"""

from laps_relay.config.load import (
    Changes,
    ConfigError,
    Loaded,
    Problem,
    compare,
    json_schema,
    leaves,
    load,
    markdown,
    shown,
)
from laps_relay.config.model import RelayConfig

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
