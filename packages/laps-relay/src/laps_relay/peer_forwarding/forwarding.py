"""The border between the network core and its forwarding plane: what a FIB is made of.

::

    Sets  -- install, cut, retire -->  PeerForwarding  -- streams, datagrams -->  Egress
      ^------------ SetIdle ----------------'   |   ^
                                                v   |
                                         DataSink   Feed      our own clients

The control side names where data comes from and where it goes; it never sees any. The plane never
sees a name, a way or a policy. Implemented by :mod:`laps_relay.peer_forwarding`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple, Protocol, TypeAlias

from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.upstream.interfaces import Feed
from laps_wire.peering.session import SnsStanding

__all__ = [
    "LOCAL",
    "EgressSet",
    "HoldData",
    "Ingress",
    "NetworkFeed",
    "Outdated",
    "PeerForwarding",
    "PeerPlaneCounters",
    "SetCounters",
    "SetIdle",
]

LOCAL: int = 0
"""The session number that stands for this relay's own clients."""


class Ingress(NamedTuple):
    """Where data comes from: a set of a peer, or a feed of our own clients."""

    session: int
    """``LOCAL`` for a feed."""
    set_id: int
    """SNS id; for a feed its number."""


class EgressSet(NamedTuple):
    """Where data goes to: one of our sets on one session."""

    session: int
    sns_id: int


class SetIdle(NamedTuple):
    """A set that was retired has no open stream any more, and lingered: withdraw it."""

    egress: EgressSet


class Outdated(NamedTuple):
    """Streams are open that do not go to all who should have them: begin new ones.

    With an ingress that is no feed only the o-relay can, and must be told.
    """

    ingress: Ingress
    before: float = inf
    """Streams that began later go on as they are: they may end soon."""


class SetCounters(NamedTuple):
    """Of one FIB entry, since it was installed."""

    streams: int
    datagrams: int
    bytes_in: int
    bytes_out: int


class PeerPlaneCounters(NamedTuple):
    """Of the whole plane."""

    streams_in: int
    streams_out: int
    datagrams_in: int
    datagrams_out: int
    bytes_in: int
    bytes_out: int
    held_bytes: int
    """Bytes that wait for their set now."""
    unknown_streams: int
    """Streams given up because their set did not come, or is gone."""
    unknown_datagrams: int
    dropped_streams: int
    """Outgoing streams that a slow peer lost, or whose ttl ran out."""
    dropped_bytes: int
    dropped_datagrams: int = 0
    """Outgoing datagrams that did not fit a peer's path."""
    unknown_kinds: int = 0
    """Streams and datagrams whose header is of a kind that we do not know."""
    unsent_streams: int = 0
    """Outgoing streams that had not ended, or waited, when their session did."""


HoldData: TypeAlias = "Callable[[float, int, object, int], SnsStanding]"
"""``(now, sns_id, item, size)``: let data wait for its set. It comes back by ``release`` or
``discard``; anything but UNKNOWN means: it does not wait."""


class NetworkFeed(Feed, Protocol):
    """A feed with a place in the FIB: a data context that enters the network here.

    Its egress sets of the moment are those that ``PeerForwarding.install`` gave its ingress. A
    stream keeps those with which it began.
    """

    @property
    def ingress(self) -> Ingress:
        """Its place in the FIB."""


class PeerForwarding(Protocol):
    """The forwarding plane between relays (``laps_relay.peer_forwarding``)."""

    # Sessions

    def add_session(self, session: int, egress: PeerEgress, hold: HoldData) -> None:
        """Data may come from and go to this session."""

    def remove_session(self, now: float, session: int) -> None:
        """It is gone: its incoming streams end as if reset, its outgoing ones are forgotten."""

    # FIB

    def open_feed(self, number: int, key: int, context: int, payload_format: int) -> NetworkFeed:
        """A local publisher's flow; its ingress is ``Ingress(LOCAL, number)``."""

    def close_feed(self, now: float, number: int) -> None:
        """Streams under way go on to their end; no new ones."""

    def install(
        self, now: float, ingress: Ingress, egress: Sequence[EgressSet], *, local: bool
    ) -> None:
        """Make or replace a FIB entry.

        Streams that begin from now on go to these sets, and to our own clients if ``local``.
        Streams that began before go on to where they went (make before break); :meth:`cut` ends
        those that must not.
        """

    def remove(self, now: float, ingress: Ingress) -> None:
        """No more data with this ingress is expected; streams under way go on."""

    def carries(self, ingress: Ingress) -> bool:
        """Whether streams with this ingress are under way."""

    def bringing(self, key: int) -> list[Ingress]:
        """Where streams of a track come from that our own clients get."""

    def outdate(self, now: float, ingress: Ingress, *, in_place: bool = False) -> None:
        """Somebody gets a feed now who did not, or gets it another way.

        Streams that are open go on without that. If they do not end by themselves soon,
        ``Outdated`` is reported; at once if one of them has lost a receiver. The same holds for
        streams that begin soon if somebody was added to a set ``in_place``, or some are open: they
        may overtake the news of it.
        """

    def cut(self, now: float, egress: EgressSet, code: int) -> None:
        """Reset all open streams to one of our sets."""

    def retire(self, now: float, egress: EgressSet) -> None:
        """Report ``SetIdle`` once no stream to this set is open and it has lingered."""

    def release(self, now: float, session: int, items: Iterable[object]) -> None:
        """The set came: forward what was held, in this order."""

    def discard(self, now: float, session: int, items: Iterable[object]) -> None:
        """The set did not come: give up what was held (UNKNOWN_SNS), and count it."""

    # Hot path, from the shell

    def stream_data(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a unidirectional stream of a peer; the first one begins with the header.

        Raises :class:`~laps_wire.errors.RemoteError` if the peer broke the protocol.
        """

    def stream_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer abandoned it."""

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """A datagram of a peer. Raises like :meth:`stream_data`."""

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """An outgoing stream was dropped by the egress, or stopped by the peer."""

    # Polls

    def poll_notices(self) -> list[SetIdle | Outdated]:
        """What the control plane must know; taken once."""

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""

    def handle_timeout(self, now: float) -> None:
        """Let lingering sets go."""

    # Figures

    def counters(self) -> PeerPlaneCounters:
        """Of everything."""

    def entries(self) -> Mapping[Ingress, tuple[tuple[EgressSet, ...], bool, SetCounters]]:
        """The FIB: egress sets, whether our own clients get it, counters."""

    def unsent(self) -> int:
        """How many outgoing streams have not ended, or have bytes that wait."""

    def fib_size(self) -> int:
        """How many entries the FIB has."""
