"""Probes: how far other relays are from this one and from its peers (laps-2, 6.4).

::

    we            peer P                    target T
     |-- PROBE T -->|                          |
     |              | knows T: its own sRTT    |
     |<- RESPONSE --|        to T, 12 ms       |
     | 8 ms later   |                          |

    learned: P answers in 8 ms; from P to T it is 12 ms; from here over P to T 20 ms

No message goes to a relay without a session: a peer with a session to it answers from its own
measurements. The answers show which Via would be near to which node, before it is dialled.

An answer is a claim of the peer. Its claim about itself cannot be better than our own measurement,
and its claims about others cannot be faster than light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from laps_relay.network.nodes.location import Direction, declared, place_of, possible
from laps_relay.network.settings import NetworkSettings
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf, Probe, ProbeResponse, Reachable
from laps_wire.peering.laps2.codepoints import MAX_REACHABLE

__all__ = ["MAX_PROBES", "BadAnswer", "Prober", "Reading"]

MAX_PROBES: Final = 16
"""On one session in one interval; more targets take turns."""

_LOST: Final = 3
"""A reading counts for so many rounds of all targets after it was made."""


class Reading(NamedTuple):
    """What an answer to a probe measured."""

    at: float
    peer: NodeId
    target: NodeId
    peer_rtt_us: int
    """From us to the peer, without the time that it took to answer."""
    target_rtt_us: int | None
    """From the peer to the target, as it says; None: it does not reach it."""

    @property
    def rtt_us(self) -> int | None:
        """The round trip from this relay over the peer to the target."""
        return None if self.target_rtt_us is None else self.peer_rtt_us + self.target_rtt_us


class BadAnswer(NamedTuple):
    """An answer that is not believed: for the log."""

    peer: NodeId
    target: NodeId
    reason: str


class _Session:
    __slots__ = ("next", "peer", "srtt_us")

    def __init__(self, peer: NodeId, srtt_us: int) -> None:
        self.peer = peer
        self.srtt_us = srtt_us
        self.next = 0
        """Which target's turn it is."""


class _Asked(NamedTuple):
    session: int
    target: NodeId
    timestamp: int
    at: float


class Prober:
    """The probes that one relay sends and answers."""

    __slots__ = (
        "_asked",
        "_due",
        "_first_asked",
        "_first_read",
        "_info",
        "_local",
        "_places",
        "_probe_id",
        "_readings",
        "_sessions",
        "_settings",
        "_targets",
        "_wished",
    )

    def __init__(
        self,
        local: NodeId,
        settings: NetworkSettings,
        info: Callable[[NodeId], NodeInfo | None],
    ) -> None:
        """``info`` returns what is known of a node."""
        self._local = local
        self._settings = settings
        self._info = info
        self._sessions: dict[int, _Session] = {}
        self._targets: tuple[NodeId, ...] = ()
        self._wished: Callable[[], Iterable[NodeId]] | None = None
        """Who knows other targets, which were not needed yet."""
        self._asked: dict[int, _Asked] = {}
        self._readings: dict[tuple[NodeId, NodeId], Reading] = {}
        self._places: dict[NodeId, tuple[NodeSelf, Direction | None]] = {}
        """Where nodes stand, with what they said when we looked."""
        self._first_asked = self._first_read = -math.inf
        """No probe and no reading is older than that."""
        self._due: Timers[int] = Timers()
        self._probe_id = 0

    # Sessions and targets

    def add_session(
        self, now: float, session: int, peer: NodeId, *, srtt_us: int, asks: bool = True
    ) -> None:
        """A session of ours. ``asks``: feature PROBES is agreed: now, and then every interval."""
        self._sessions[session] = _Session(peer, srtt_us)
        if asks:
            self._due.set(session, now)

    def measured(self, session: int, srtt_us: int) -> None:
        """Set the sRTT of a session, as the transport measures it."""
        if session in self._sessions:
            self._sessions[session].srtt_us = srtt_us

    def remove_session(self, session: int) -> None:
        """Remove a session; readings of its peer go with the last session to it."""
        gone = self._sessions.pop(session, None)
        self._due.cancel(session)
        self._asked = {key: each for key, each in self._asked.items() if each.session != session}
        if gone is not None and all(each.peer != gone.peer for each in self._sessions.values()):
            self._readings = {
                key: reading for key, reading in self._readings.items() if key[0] != gone.peer
            }

    def set_targets(self, targets: Callable[[], Iterable[NodeId]]) -> None:
        """Set the function that returns all nodes whose distance is of interest."""
        # Nodes come by the hundred when a network starts; nobody asks before the next probes.
        self._wished = targets

    def _retarget(self) -> None:
        """Take over the current targets."""
        if self._wished is not None:
            wanted = {*self._wished()} - {self._local}
            self._wished = None
            self._targets = tuple(sorted(wanted))
            self._places.clear()
            self._readings = {key: each for key, each in self._readings.items() if key[1] in wanted}

    # Asking

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._due,)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return self._due.next()

    def handle_timeout(self, now: float) -> list[tuple[int, Probe]]:
        """Return the probes to send now, each with its session."""
        probes: list[tuple[int, Probe]] = []
        while (session := self._due.pop(now)) is not None:
            self._retarget()
            self._due.set(session, now + self._settings.probe_interval)
            self._expire(now)
            probes.extend((session, probe) for probe in self._ask(now, session))
        return probes

    def _ask(self, now: float, session: int) -> list[Probe]:
        """Return probes about the next targets of a peer, without the peer itself."""
        state = self._sessions[session]
        targets = [target for target in self._targets if target != state.peer]
        count = min(len(targets), MAX_PROBES)
        probes = []
        timestamp = round(now * 1e6) & (1 << 64) - 1
        for offset in range(count):
            target = targets[(state.next + offset) % len(targets)]
            self._probe_id += 1
            self._asked[self._probe_id] = _Asked(session, target, timestamp, now)
            probes.append(Probe(self._probe_id, target, timestamp))
        if targets:
            state.next = (state.next + count) % len(targets)
        return probes

    def _expire(self, now: float) -> None:
        """Forget unanswered probes, and readings that are too old."""
        # Each session asks in its own turn: most of the time nothing is old enough yet.
        horizon = now - self._settings.probe_interval
        if self._first_asked <= horizon:
            self._asked = {key: each for key, each in self._asked.items() if each.at > horizon}
            self._first_asked = min((each.at for each in self._asked.values()), default=now)
        rounds = -(-len(self._targets) // MAX_PROBES)
        horizon = now - self._settings.probe_interval * _LOST * max(1, rounds)
        if self._first_read <= horizon:
            self._readings = {
                key: each for key, each in self._readings.items() if each.at > horizon
            }
            self._first_read = min((each.at for each in self._readings.values()), default=now)

    # Learning

    def answered(
        self, now: float, session: int, response: ProbeResponse
    ) -> Reading | BadAnswer | None:
        """Return what an answer measured; None if no probe waits for it."""
        state = self._sessions.get(session)
        asked = self._asked.get(response.probe_id)
        if state is None or asked is None or asked.session != session:
            return None
        del self._asked[response.probe_id]
        elapsed = round((now - asked.at) * 1e6)
        reason = self._fault(state, asked, response, elapsed)
        if reason is not None:
            return BadAnswer(state.peer, asked.target, reason)
        rtt_us = elapsed - response.delay_us
        reading = Reading(now, state.peer, asked.target, rtt_us, response.rtt_us)
        self._readings[state.peer, asked.target] = reading
        return reading

    def _fault(
        self, state: _Session, asked: _Asked, response: ProbeResponse, elapsed_us: int
    ) -> str | None:
        if response.target != asked.target or response.timestamp != asked.timestamp:
            return "it answers another question than was asked"
        if response.delay_us > elapsed_us:
            return f"it took {response.delay_us} us to answer, and was back after {elapsed_us} us"
        if response.rtt_us is None or not self._settings.light_time:
            return None
        peer, target = self._place(state.peer), self._place(asked.target)
        if not possible(response.rtt_us, peer, target):
            return f"a round trip of {response.rtt_us} us: light would need longer"
        return None

    def _place(self, node: NodeId) -> Direction | None:
        """Return the declared location of a node; None if it is unknown."""
        info = self._info(node)
        if info is None:
            return None
        known = self._places.get(node)
        if known is None or known[0] is not info.node:
            known = self._places[node] = info.node, place_of(declared(info.node))
        return known[1]

    def round_trips(self) -> dict[NodeId, int]:
        """Return the shortest known round trip to each node, directly or over a peer.

        A node that is missing is neither a peer of ours nor, by their answers, of our peers.
        """
        self._retarget()
        found = [(each.peer, each.srtt_us) for each in self._sessions.values() if each.srtt_us]
        found += [
            (target, each.rtt_us)
            for (_, target), each in self._readings.items()
            if each.rtt_us is not None
        ]
        best: dict[NodeId, int] = {}
        for node, rtt_us in found:
            best[node] = min(rtt_us, best.get(node, rtt_us))
        return best

    # Answering

    def reachable(self) -> tuple[Reachable, ...]:
        """Return the nodes that we reach over our own sessions, for our node information."""
        best: dict[NodeId, int] = {}
        for each in self._sessions.values():
            best[each.peer] = min(each.srtt_us, best.get(each.peer, each.srtt_us))
        nearest = sorted(best.items(), key=lambda item: (item[1], item[0]))[:MAX_REACHABLE]
        return tuple(Reachable(node, rtt_us) for node, rtt_us in sorted(nearest))

    def answer(self, probe: Probe, *, delay_us: int = 0) -> ProbeResponse:
        """Answer a peer's probe: at most 17 bytes longer, whatever it carries (at most 32 allowed).

        Its padding is not sent back. We answer for ourselves and for nodes to which we have
        sessions; what others say of farther ones is theirs to answer.
        """
        rtt_us = None if probe.target != self._local else 0
        for each in self._sessions.values():
            if each.peer == probe.target:
                rtt_us = each.srtt_us if rtt_us is None else min(rtt_us, each.srtt_us)
        return ProbeResponse(probe.probe_id, probe.target, probe.timestamp, delay_us, rtt_us)
