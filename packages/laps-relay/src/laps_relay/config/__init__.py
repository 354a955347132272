"""The relay's configuration: models, sources, and what to say about mistakes."""

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
