"""One control connection between two nodes, whoever dialled, however many connections there are.

Seed 000 (Connection Establishment) says: of several parallel connections the first one made carries
control; when both nodes dial at the same time, the connection dialled by the node with the lowest
node id does. Neither "first" nor "the same time" can be seen by two nodes alike, so we say what
they mean in messages, and let exactly one side decide about each connection.

**Asking and granting** (docs/spec/laps-2.md, 4.4). A dialler *asks* for control in PROOF (mode
control or both). The listener *grants* or *denies* it with the mode in CONNECT_RESPONSE. A node
asks on one connection at a time, and only while it holds no control connection with that peer. The
listener looks at this table::

    what the listener itself has        listener's id        listener's id
    with that peer, on another          is the lower         is the higher
    connection
    ---------------------------------   ------------------   ------------------
    nothing                             grant                grant
    an unanswered request (a tie)       deny: ours wins      grant: theirs wins
    control                             deny                 deny

A denied connection carries data only; if it was to carry control alone, it is refused.

**Why both sides agree.** Take a low node L and a high node H, and call a connection by its dialler.
A granter holds what it granted from that moment, a dialler from the answer on.

- Two connections of one dialler: one listener answers both, one after the other, and grants once.
- L's and H's: L grants H's only while it has no request of its own out, and after that it does not
  ask. So if L's request is out, H's is denied, now or later; and H's own request does not keep it
  from granting L's. If L's request is not out, L has granted, H's is the one, and L's never asks.

So a connection is denied only because another one was granted or will be, and never are two granted
that are both alive. If the winner dies before it is established, nobody holds control, and the next
dialler gets it (the shell dials again; who may ask is :attr:`Arbiter.may_ask`).

**What is known late.** A node may hear of a grant while it still believes in an older control
connection. The granter had none left, so the older one is dead at the other end: it is *superseded*
and the caller closes it. In the same way a peer that comes back with a higher boot epoch supersedes
every connection of its former life, and one with a lower epoch is that former life: stale.
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
    """What a node has with one peer, over all connections but the one in question."""

    NOTHING = "nothing"
    ASKED = "asked"
    """It dialled, asked for control and has no answer yet."""
    HELD = "held"
    """A connection between the two carries control."""


@unique
class Grant(Enum):
    """What a connection may be used for."""

    CONTROL = "control"
    """The connection that carries control (and data, if its mode says so)."""
    DATA = "data"
    """Data only: another connection carries control, or none was asked for."""
    STALE = "stale"
    """Nothing: the peer at the other end is an earlier life of a node that has restarted since."""


# (what the listener has, the listener's id is the lower one) -> grant control to the dialler.
_TABLE: Final[dict[tuple[Claim, bool], bool]] = {
    (Claim.NOTHING, True): True,
    (Claim.NOTHING, False): True,
    (Claim.ASKED, True): False,
    (Claim.ASKED, False): True,
    (Claim.HELD, True): False,
    (Claim.HELD, False): False,
}


def grants_control(own: Claim, *, local: int, peer: int) -> bool:
    """Whether node ``local``, which has ``own``, grants control to ``peer``, which asks for it."""
    return _TABLE[own, local < peer]


@dataclass(frozen=True, slots=True)
class Verdict(Generic[K]):
    """What follows for the connections between two nodes."""

    grant: Grant
    """What the connection in question may be used for."""
    superseded: tuple[K, ...] = ()
    """Connections that are dead at the other end; close them."""


class Arbiter(Generic[K]):
    """All connections between this node and one peer, by any key that the caller likes.

    Events, in the order in which they happen to a connection:

    - we dial: :meth:`dialled`, just before PROOF (ask only if :attr:`may_ask`), then
      :meth:`answered`, on CONNECT_RESPONSE;
    - the peer dials: :meth:`answer`, just before CONNECT_RESPONSE;
    - either ends: :meth:`closed`.
    """

    __slots__ = ("_asked", "_held", "_open", "_peer_epoch", "local", "peer")

    def __init__(self, local: int, peer: int) -> None:
        if local == peer:
            raise StateError(f"a node has no peer with its own id {local}")
        self.local = local
        self.peer = peer
        self._peer_epoch = -1
        self._open: dict[K, int | None] = {}  # with the peer's epoch, once it is known
        self._asked: K | None = None
        self._held: K | None = None

    @property
    def held(self) -> K | None:
        """The connection that carries control, as far as this side knows."""
        return self._held

    @property
    def claim(self) -> Claim:
        """What this side has with the peer."""
        if self._held is not None:
            return Claim.HELD
        return Claim.NOTHING if self._asked is None else Claim.ASKED

    @property
    def may_ask(self) -> bool:
        """Whether the next connection that we dial may ask for control."""
        return self.claim is Claim.NOTHING

    def __len__(self) -> int:
        return len(self._open)

    def dialled(self, key: K, *, ask: bool) -> None:
        """PROOF goes out on a connection that we dialled, with or without asking for control."""
        if key in self._open:
            raise StateError(f"connection {key!r} is already known")
        if ask:
            if not self.may_ask:
                raise StateError(f"control may not be asked for: {self.claim.value} elsewhere")
            self._asked = key
        self._open[key] = None

    def answered(self, key: K, *, control: bool, epoch: int) -> Verdict[K]:
        """CONNECT_RESPONSE came in on a connection that we dialled."""
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
            # The granter holds nothing else, so what we believed in has ended there.
            superseded += (self._held,)
            del self._open[self._held]
        self._held = key
        return Verdict(Grant.CONTROL, superseded)

    def answer(self, key: K, *, ask: bool, epoch: int) -> Verdict[K]:
        """Decide what to say in CONNECT_RESPONSE on a connection that the peer dialled."""
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
        """The connection has ended, for whatever reason; unknown ones are no fault."""
        self._open.pop(key, None)
        if self._asked == key:
            self._asked = None
        if self._held == key:
            self._held = None

    def _meet(self, key: K, epoch: int) -> tuple[K, ...] | None:
        """Note the life of the peer that ``key`` leads to; ``None`` if that life is over."""
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
