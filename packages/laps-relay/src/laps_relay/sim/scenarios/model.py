"""A scenario as data: the topology of a run, its settings, and the actions with their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from laps_relay.network.settings import NetworkSettings
from laps_relay.sim.clients.clients import Style
from laps_relay.sim.clients.ledger import FLIGHT
from laps_relay.sim.net.wires import QUEUE_BYTES
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology

__all__ = ["DEFAULT_STYLE", "FAULTS", "SETTINGS", "Action", "Scenario"]

FAULTS: Final = (
    "cut", "half", "crash", "pause", "slow", "double", "liar", "garbage", "reflector", "flood",
)  # fmt: skip
"""Actions that are faults."""
SETTINGS: Final = NetworkSettings(
    hold=24.0,
    keepalive=8.0,
    convergence=3.0,
    unsubscribe_delay=1.0,
    want_linger=4.0,
    origin_grace=2.0,
    metric_interval=0.5,
    probe_interval=1_000.0,
    set_linger=0.3,
    max_fanout=1_000,
    dynamic_peering=False,
    dynamic_idle=5.0,
    via_hold=2.0,
)
"""Short times, so that a run needs few virtual seconds; Vias are injected in ``steering``."""
DEFAULT_STYLE: Final = Style()


class Action(NamedTuple):
    """Something that is done to the network."""

    when: float
    verb: str
    who: tuple[str, ...] = ()
    value: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A run."""

    seed: int
    topology: Topology
    settings: NetworkSettings = SETTINGS
    actions: tuple[Action, ...] = ()
    spares: tuple[RelaySpec, ...] = ()
    """Relays that are started during the run."""
    spare_links: tuple[LinkSpec, ...] = ()
    healed: float = 6.0
    """When the last action is over."""
    idle: float = 1.0
    """After how long a dead connection is noticed."""
    exact: bool = True
    """Whether the FIB must equal the oracle: not if Vias are injected."""
    policies: bool = False
    """Whether any policy is loaded."""
    rule_engine: bool = False
    """Whether relays ask the real engine of policies."""
    style: Style = DEFAULT_STYLE
    on_bytes: bool = True
    """Whether control messages are bytes, or are handed over as they are (faster)."""
    parallel: int = 1
    """Connections for each configured link."""
    gauged: bool = False
    """Whether relays get measurements of what their links lose, and of what waits."""
    max_loss: float | None = None
    """The highest loss that is allowed for links of a path."""
    queue: int = QUEUE_BYTES
    """Bytes that a connection keeps for a slow peer."""
    manners: tuple[tuple[int, int], ...] = ((128, 0),)
    """Priority and ttl in milliseconds of tracks, in turn."""
    offered: float = 0.0
    """Bytes a second of all publishers together, if links are narrow."""
    flight: float = FLIGHT
    """The longest time of an object through all relays."""
    repair: float = 0.0
    """So long after its time an object may arrive that was sent again; 0: nothing is sent again.

    Then Edges are whole ones with logs, and only the loss of the last path may lose objects."""
    settle: float = 8.0
    """After the last action, until everything must be at rest."""

    @property
    def faults(self) -> int:
        """How many actions are unplanned."""
        return sum(action.verb in (*FAULTS, "twin") for action in self.actions)
