"""The relay network as one more client of an :class:`~testkit.edge_net.EdgeNet`."""

from __future__ import annotations

from typing import Any

from laps_sdk.edge.settings import SessionInfo
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.session import RequestReceived, RequestRejected
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from testkit.edge_net import TRACK, EdgeNet, Peer
from testkit.moqt_pair import Pair
from testkit.recording_plane import NullEgress

__all__ = ["Upstream"]

D18 = Draft.D18


class Upstream(Peer):
    """An upstream session that a test answers for."""

    def __init__(self, net: EdgeNet, *, settle: bool = True, **info: Any) -> None:
        flags = {"peering": True, "upstream": True, **info}
        super().__init__(900, Pair(D18), SessionInfo(peer_address="network", draft=D18, **flags))
        self.net = net
        self.last = -1
        net.peers[self.id] = self
        net.relay.add_session(net.now, self.id, self.wire, NullEgress(), self.info)
        if settle:
            net.settle()

    def asked(self) -> list[FullTrackName]:
        """The tracks that it was asked for since the last call."""
        self.net.settle()
        found: list[FullTrackName] = []
        for event in self.take(RequestReceived):
            assert isinstance(event.message, Subscribe)
            found.append(event.message.track)
            self.last = event.request_id
        return found

    def accept(self) -> None:
        self.session.accept_subscribe(self.last, 55)
        self.net.settle()

    def refuse(self, code: int = RequestErrorCode.DOES_NOT_EXIST, reason: str = "nobody") -> None:
        self.session.reject(self.last, code, reason)
        self.net.settle()

    def subscribe(self, track: FullTrackName = TRACK) -> int:
        request_id = self.session.subscribe(track)
        self.net.settle()
        return request_id

    def error(self) -> int:
        return self.one(RequestRejected).message.error_code
