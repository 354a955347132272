"""The choice of one control connection between two nodes that may have several connections.

Seed 000 (Connection Establishment): of several parallel connections, the first one carries control.
If both nodes dial at the same time, the connection dialled by the node with the lowest node ID
carries control. Two nodes cannot observe "first" and "the same time" alike. So this module defines
both in terms of messages, and exactly one side decides about each connection.

**Asking and granting** (docs/spec/laps-2.md, 4.4). A dialler *asks* for control in PROOF (mode
control or both). The listener *grants* or *denies* it with the mode in CONNECT_RESPONSE. A node
asks on one connection at a time, and only while it holds no control connection with that peer. The
listener decides by this table::

    what the listener itself has        listener's ID        listener's ID
    with that peer, on another          is the lower         is the higher
    connection
    ---------------------------------   ------------------   ------------------
    nothing                             grant                grant
    an unanswered request (a tie)       deny: ours wins      grant: theirs wins
    control                             deny                 deny

A denied connection carries data only; if it was to carry control alone, it is refused.

**Why both sides agree.** Let L be the node with the lower ID and H the other one. A connection is
named by its dialler. A granter holds control from its grant on, a dialler from the answer on.

- Two connections of one dialler: the same listener answers both in sequence, and grants once.
- L's and H's: L grants H's only while no request of L is unanswered, and after the grant L does not
  ask. If L's request is unanswered, H's request is denied; H's own request does not keep H from
  granting L's. If L has no request, L grants H's, and L never asks.

So a connection is denied only if another one was granted or will be. Two connections that are both
alive are never both granted. If the granted connection ends before it is established, no node holds
control, and the next dialler gets it. :attr:`Arbiter.may_ask` says whether a node may ask.

**Superseded connections.** A node may receive a grant while it still holds an older control
connection. The granter had none, so the older connection has ended at the other side: it is
*superseded*, and the caller closes it. A peer that returns with a higher boot epoch supersedes all
connections of its earlier epoch. A connection of a lower epoch is *stale*.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import Final, Generic, TypeVar

from laps_wire.errors import StateError

__all__ = ["Arbiter", "Claim", "Grant", "Verdict", "grants_control"]

K = TypeVar("K")


@unique
class Claim(Enum):
    """What a node has with one peer on all its other connections."""

    NOTHING = "nothing"
    ASKED = "asked"
    """The node dialled, asked for control and has no answer yet."""
    HELD = "held"
    """A connection between the two carries control."""


@unique
class Grant(Enum):
    """What a connection may be used for."""

    CONTROL = "control"
    """The connection carries control, and data if its mode includes data."""
    DATA = "data"
    """Data only: another connection carries control, or the dialler did not ask for control."""
    STALE = "stale"
    """Nothing: the connection belongs to an earlier boot epoch of a restarted node."""


# (what the listener has, whether its ID is the lower one) -> grant control to the dialler.
_TABLE: Final[dict[tuple[Claim, bool], bool]] = {
    (Claim.NOTHING, True): True,
    (Claim.NOTHING, False): True,
    (Claim.ASKED, True): False,
    (Claim.ASKED, False): True,
    (Claim.HELD, True): False,
    (Claim.HELD, False): False,
}


def grants_control(own: Claim, *, local: int, peer: int) -> bool:
    """Return whether node ``local``, which has ``own``, grants the request of ``peer``."""
    return _TABLE[own, local < peer]


@dataclass(frozen=True, slots=True)
class Verdict(Generic[K]):
    """The result of a grant or an answer, for the connections between two nodes."""

    grant: Grant
    """What the connection may be used for."""
    superseded: tuple[K, ...] = ()
    """Connections that have ended at the other side; the caller closes them."""


class Arbiter(Generic[K]):
    """All connections between this node and one peer, by a key of the caller's choice.

    Calls for one connection, in order:

    - dialled by this node: :meth:`dialled` just before PROOF (``ask`` only if :attr:`may_ask`),
      then :meth:`answered` on CONNECT_RESPONSE;
    - dialled by the peer: :meth:`answer` just before CONNECT_RESPONSE;
    - at the end of the connection: :meth:`closed`.
    """

    __slots__ = ("_asked", "_held", "_open", "_peer_epoch", "local", "peer")

    def __init__(self, local: int, peer: int) -> None:
        if local == peer:
            raise StateError(f"a node has no peer with its own id {local}")
        self.local = local
        self.peer = peer
        self._peer_epoch = -1
        self._open: dict[K, int | None] = {}  # the peer's epoch, None until it is known
        self._asked: K | None = None
        self._held: K | None = None

    @property
    def held(self) -> K | None:
        """The connection that carries control, as far as this node knows."""
        return self._held

    @property
    def claim(self) -> Claim:
        """What this node has with the peer."""
        if self._held is not None:
            return Claim.HELD
        return Claim.NOTHING if self._asked is None else Claim.ASKED

    @property
    def may_ask(self) -> bool:
        """Whether the next connection that this node dials may ask for control."""
        return self.claim is Claim.NOTHING

    def __len__(self) -> int:
        return len(self._open)

    def dialled(self, key: K, *, ask: bool) -> None:
        """Record a connection that this node dialled, before PROOF with or without ``ask``."""
        if key in self._open:
            raise StateError(f"connection {key!r} is already known")
        if ask:
            if not self.may_ask:
                raise StateError(f"control may not be asked for: {self.claim.value} elsewhere")
            self._asked = key
        self._open[key] = None

    def answered(self, key: K, *, control: bool, epoch: int) -> Verdict[K]:
        """Record CONNECT_RESPONSE on a connection that this node dialled."""
        if key not in self._open:
            raise StateError(f"connection {key!r} is not known")
        asked = self._asked == key
        if asked:
            self._asked = None
        superseded = self._meet(key, epoch)
        if superseded is None:
            return Verdict(Grant.STALE)
        if not (control and asked):
            return Verdict(Grant.DATA, superseded)
        if self._held is not None:
            # The granter holds no other connection, so the held one has ended there.
            superseded += (self._held,)
            del self._open[self._held]
        self._held = key
        return Verdict(Grant.CONTROL, superseded)

    def answer(self, key: K, *, ask: bool, epoch: int) -> Verdict[K]:
        """Decide about a connection that the peer dialled, before CONNECT_RESPONSE."""
        if key in self._open:
            raise StateError(f"connection {key!r} is already known")
        superseded = self._meet(key, epoch)
        if superseded is None:
            return Verdict(Grant.STALE)
        if ask and grants_control(self.claim, local=self.local, peer=self.peer):
            self._held = key
            return Verdict(Grant.CONTROL, superseded)
        return Verdict(Grant.DATA, superseded)

    def closed(self, key: K) -> None:
        """Remove a connection that has ended; an unknown key is ignored."""
        self._open.pop(key, None)
        if self._asked == key:
            self._asked = None
        if self._held == key:
            self._held = None

    def _meet(self, key: K, epoch: int) -> tuple[K, ...] | None:
        """Record the peer's epoch of ``key``; return the superseded keys, None for a stale one."""
        if epoch < self._peer_epoch:
            self.closed(key)
            return None
        self._open[key] = epoch
        if epoch == self._peer_epoch:
            return ()
        self._peer_epoch = epoch
        former = tuple(
            other for other, known in self._open.items() if known is not None and known < epoch
        )
        for other in former:
            self.closed(other)
        return former
