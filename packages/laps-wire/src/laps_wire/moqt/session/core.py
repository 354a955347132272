"""What all parts of a session share: its tables, its queues, and how a request ends.

The parts are layers. Each knows those below it::

    session     receive_*, poll_*, close             the public class
    commands    subscribe, accept, cancel, ...       what the application asks for
    inbound     bytes of a stream -> messages        what the transport brings
    shape16/18  messages -> requests and signals     where the drafts differ
    handlers    what a message does to a request     where they do not
    core        tables, queues, endings              this module
"""

from __future__ import annotations

from typing import Final, Protocol

from laps_wire.errors import RemoteError, StateError
from laps_wire.moqt.codepoints import STREAM_RESET_CODES, RequestErrorCode
from laps_wire.moqt.control import ControlCodec
from laps_wire.moqt.messages import Message, RequestError, RequestUpdate
from laps_wire.moqt.session.config import SessionConfig
from laps_wire.moqt.session.events import (
    Event,
    NamespaceWithdrawn,
    RequestCancelled,
    RequestMessage,
    RequestRefused,
    Terminated,
)
from laps_wire.moqt.session.handshake import own_options
from laps_wire.moqt.session.ids import OwnRequestIds, PeerRequestIds, RequestCredit
from laps_wire.moqt.session.recent import Recent
from laps_wire.moqt.session.refusals import Refusal
from laps_wire.moqt.session.requests import Request, Requests
from laps_wire.moqt.session.state import Control, Signal, State
from laps_wire.moqt.session.streams import Stream, Streams
from laps_wire.moqt.session.tokens import OwnTokens, TokenCache
from laps_wire.moqt.versions import Draft
from laps_wire.names import Namespace

__all__ = ["MAX_CLOSE_REASON", "Core", "Shape"]

MAX_CLOSE_REASON: Final = 512
"""The most characters in the reason of a close: it should fit one packet."""


_UNANSWERED: Final = (State.PENDING, State.DATA_ENDED)


class Shape(Protocol):
    """The third strategy in which drafts differ: which stream carries what."""

    def start(self) -> None:
        """Send what can be sent before the peer has said anything."""

    def first_message(self, stream: Stream, message_type: int) -> None:
        """Settle what a bidirectional stream of the peer is for, by the type it begins with."""

    def on_message(self, stream: Stream, message: Message) -> None:
        """Act on a message of the peer."""

    def send_request(self, request: Request, data: bytes) -> None:
        """Send an encoded request of ours."""

    def send(self, request: Request, data: bytes, *, fin: bool = False) -> None:
        """Send an encoded message about a request; ``fin`` if it is our last one."""

    def send_update(self, request: Request, data: bytes, *, fin: bool = False) -> None:
        """Send an encoded REQUEST_UPDATE, or the answer to one."""

    def cancel_message(self, request: Request, code: int | None, reason: str) -> Message | None:
        """The message that cancels a request; None if its stream says it."""

    def send_cancel(self, request: Request, data: bytes, code: int | None) -> None:
        """Send the encoded message that cancels, or end the request's stream."""

    def send_control(self, message: Message) -> None:
        """Send a message on our control stream."""

    def grant(self) -> None:
        """Let the peer make more requests, if enough have ended and the draft counts them."""


class Core:
    """The state of a session."""

    __slots__ = (
        "closed",
        "codec",
        "config",
        "control",
        "control_in",
        "control_out",
        "credit",
        "draft",
        "early",
        "early_bytes",
        "events",
        "goaway_sent",
        "options",
        "own_ids",
        "own_tokens",
        "peer_ids",
        "peer_tokens",
        "recent_updates",
        "requests",
        "role",
        "shape",
        "streams",
        "updates",
    )

    shape: Shape

    def __init__(self, config: SessionConfig) -> None:
        limits = config.limits
        self.config = config
        self.draft = config.draft
        self.role = config.role
        self.options = own_options(config)
        """What our SETUP says."""
        self.codec = ControlCodec(config.draft, extensions=config.extensions)
        self.streams = Streams(config.role)
        self.requests = Requests(limits.max_ended)
        # Draft 16 allows nothing until SETUP says so; draft 18 has no such limit.
        maximum = 0 if config.draft is Draft.D16 else None
        self.own_ids = OwnRequestIds(config.role.first_request_id, maximum)
        self.peer_ids = PeerRequestIds(config.role.peer.first_request_id, config.draft)
        self.credit = RequestCredit(limits.max_requests)
        self.own_tokens = OwnTokens(self.options.authorization_tokens)
        self.peer_tokens = TokenCache(limits.max_token_cache)
        self.control = Control.AWAITING_SETUP
        """What we have heard on the peer's control stream."""
        self.control_in: Stream | None = None
        """The stream on which the peer sends control messages."""
        self.control_out: Stream | None = None
        """The stream on which we do; in draft 16 the same one."""
        self.goaway_sent = False
        self.closed = False
        self.updates: dict[int, Request] = {}
        """Updates that were not answered, ours and the peer's, by their own ids."""
        self.recent_updates: Recent[bool] = Recent(limits.max_ended)
        """Draft 16: updates of ours that are over, and whether an answer may still come."""
        self.early: dict[Stream, int] = {}
        """Streams whose bytes are held until SETUP comes, and how many each has; oldest first."""
        self.early_bytes = 0
        """The sum of these, so that it is not counted anew for every byte."""
        self.events: list[Event] = []

    def control_stream(self) -> Stream:
        """The stream on which we send control messages."""
        if self.control_out is None:
            raise StateError("there is no control stream yet")
        return self.control_out

    # Words and codes

    def encode(self, message: Message) -> bytes:
        """Write a message in this session's draft."""
        return self.codec.encode(message)

    def reply_id(self, request_id: int) -> int | None:
        """The request id that a reply carries: none in draft 18, its stream says which."""
        return request_id if self.draft is Draft.D16 else None

    @property
    def cancelled(self) -> int:
        """The stream reset code CANCELLED."""
        return int(STREAM_RESET_CODES[self.draft].CANCELLED)

    @property
    def overload(self) -> int:
        """The stream reset code for "too much for us"."""
        codes = STREAM_RESET_CODES[self.draft]
        return int(codes["EXCESSIVE_LOAD"] if self.draft is Draft.D18 else codes.INTERNAL_ERROR)

    # The end of the session

    def check_open(self) -> None:
        """StateError if the session is over."""
        if self.closed:
            raise StateError("the session is closed")

    def terminate(self, code: int, reason: str, *, by_peer: bool) -> None:
        """End the session, once; the connection is closed unless the peer did it."""
        if self.closed:
            return
        self.closed = True
        reason = reason[:MAX_CLOSE_REASON]
        if not by_peer:
            self.streams.close(code, reason)
        self.events.append(Terminated(code=code, reason=reason, by_peer=by_peer))
        self.requests.clear()
        self.updates.clear()
        self.early.clear()

    def fail(self, error: RemoteError) -> None:
        """Close the session because of what the peer did."""
        self.terminate(error.code, str(error), by_peer=False)

    # The end of a request

    def end(self, request: Request, *, abrupt: int | None = None) -> None:
        """Clean up behind a request that has just become TERMINATED.

        ``abrupt`` is the code to end its stream with; without it our half is closed in good order.
        """
        self.requests.end(request)
        request.namespaces.clear()
        self.own_tokens.abandoned(request.id)
        for update_id in request.our_updates:
            self.own_tokens.abandoned(update_id)
            del self.updates[update_id]
            self.recent_updates.put(update_id, True)
        for update_id in request.their_updates:
            del self.updates[update_id]
            if self.draft is Draft.D16:
                self.refuse_late_update(request, update_id)
        request.their_updates.clear()
        if not request.ours:
            self.release()
        stream = request.stream
        if stream is not None:
            if abrupt is None:
                self.streams.finish(stream)
            else:
                self.streams.reset(stream, abrupt)
                self.streams.stop(stream, abrupt)

    def release(self) -> None:
        """Draft 16: a request or an update of the peer is over; it may make more."""
        if self.draft is Draft.D16:
            self.credit.release()

    def refuse_late_update(self, request: Request, update_id: int) -> None:
        """Draft 16: answer an update of a request that is over, for each gets one answer."""
        code, reason = RequestErrorCode.INTERNAL_ERROR, "the request is over"
        data = self.encode(RequestError(update_id, code, 0, reason))
        self.shape.send_update(request, data)
        self.release()

    def withdraw_namespaces(self, request: Request) -> None:
        """Tell that nothing that was advertised for a request of ours is any more."""
        self._drop_namespaces(request, list(request.namespaces))

    def move_prefix(self, request: Request, prefix: Namespace) -> None:
        """Suffixes count from a new prefix: what it does not cover is heard of no more."""
        request.prefix = prefix
        lost = [name for name in request.namespaces if not prefix.is_prefix_of(name)]
        self._drop_namespaces(request, lost)

    def _drop_namespaces(self, request: Request, lost: list[Namespace]) -> None:
        for namespace in lost:
            del request.namespaces[namespace]
            if request.ours:
                self.events.append(NamespaceWithdrawn(request_id=request.id, namespace=namespace))

    def give_up(self, request: Request, reason: str) -> None:
        """Cancel a request because it would take more memory than we lend."""
        request.apply_ours(Signal.CANCEL)
        self.withdraw_namespaces(request)
        self.events.append(
            RequestCancelled(
                request_id=request.id, code=self.overload, reason=reason, by_peer=False
            )
        )
        self.end(request, abrupt=self.overload)

    # Saying no

    def reject(self, request: Request, error: RequestError) -> None:
        """Reject a request; ``error`` carries its id as the draft has it."""
        data = self.encode(error)
        request.apply_ours(Signal.ERROR)
        self.shape.send(request, data, fin=True)
        self.end(request)

    def reject_update(self, request: Request, update_id: int, error: RequestError) -> None:
        """Reject an update; in draft 18 that answers every update that waits."""
        data = self.encode(error)
        request.apply_ours(Signal.UPDATE_ERROR)
        answered = [update_id] if self.draft is Draft.D16 else list(request.their_updates)
        for answered_id in answered:
            self.answered_theirs(request, answered_id)
        self.shape.send_update(request, data, fin=request.over)
        if request.over:
            self.end(request)

    def answered_theirs(self, request: Request, update_id: int) -> None:
        """Note that we have answered an update of the peer."""
        request.their_updates.remove(update_id)
        request.prefixes.pop(update_id, None)
        del self.updates[update_id]
        self.release()

    def refuse(
        self, request: Request, message: RequestMessage | RequestUpdate, why: Refusal
    ) -> None:
        """Reject a request, or an update of it, without asking the application."""
        # Before the request has its reply, an update has no answer of its own.
        update = isinstance(message, RequestUpdate) and request.state not in _UNANSWERED
        answers = message.request_id if update else request.id
        error = RequestError(self.reply_id(answers), why.code, 0, why.reason)
        self.events.append(
            RequestRefused(
                request_id=request.id, message=message, error_code=why.code, reason=why.reason
            )
        )
        if update:
            self.reject_update(request, message.request_id, error)
        else:
            self.reject(request, error)
