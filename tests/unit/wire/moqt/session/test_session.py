"""The public class: its getters and polls, and that the package exports what it should."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

import pytest

import laps_wire.moqt.session as package
from laps_wire.errors import EncodeError, StateError
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.session import (
    Action,
    CloseSession,
    Event,
    Kind,
    OpenStream,
    RequestCancelled,
    Role,
    Session,
    SessionConfig,
    SetupReceived,
    State,
    Terminated,
)
from laps_wire.moqt.session.ids import MAX_GAPS
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Lone, Pair

BOTH = pytest.mark.parametrize("draft", list(Draft))
TRACK = FullTrackName(Namespace.of(b"a"), b"one")


@BOTH
def test_two_sessions_meet(draft: Draft) -> None:
    path = SetupOptions(path="/live", moqt_implementation="laps")
    pair = Pair(draft, client={"options": path})
    client, server = pair.client.session, pair.server.session
    assert [session.established for session in (client, server)] == [False, False]
    # The client's SETUP
    (event,) = pair.to_server()
    assert isinstance(event, SetupReceived)
    assert event.options == client.options
    assert (event.options.path, event.options.moqt_implementation) == ("/live", "laps")
    assert [session.established for session in (client, server)] == [False, True]
    # The server's
    (event,) = pair.to_client()
    assert isinstance(event, SetupReceived)
    assert event.options == server.options
    assert [session.established for session in (client, server)] == [True, True]
    assert (client.draft, client.role, server.role) == (draft, Role.CLIENT, Role.SERVER)
    assert not client.going_away


@BOTH
def test_getters_tell_about_requests(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    session = lone.session
    assert (session.request_state(0), session.request_kind(0)) == (None, None)
    session.subscribe(TRACK)
    lone.request(Subscribe(1, TRACK))
    assert session.open_requests == (0, 1)
    assert (session.request_state(0), session.request_kind(1)) == (State.PENDING, Kind.SUBSCRIBE)


@BOTH
def test_polls_take_things_once(draft: Draft) -> None:
    lone = Lone.established(draft, Role.SERVER)
    lone.session.receive_stream_data(2 if draft is Draft.D16 else 6, b"\x10")
    assert not lone.session.is_idle
    assert len(lone.session.poll_events()) == 1
    assert lone.session.poll_events() == []
    lone.session.publish_namespace(Namespace.of(b"a"))
    assert lone.session.poll_transmit() != []
    assert lone.session.poll_transmit() == []


@BOTH
def test_closing(draft: Draft) -> None:
    pair = Pair.established(draft)
    pair.client.session.close(SessionCode.INTERNAL_ERROR, "bug")
    assert pair.client.session.closed
    assert not pair.client.session.established
    assert pair.client.session.poll_events() == [Terminated(code=1, reason="bug", by_peer=False)]
    assert pair.to_server() == [Terminated(code=1, reason="bug", by_peer=True)]
    assert pair.server.session.closed
    assert pair.server.session.poll_transmit() == []
    pair.client.session.close()
    assert pair.client.session.poll_transmit() == []


@BOTH
def test_a_lost_connection(draft: Draft) -> None:
    lone = Lone.established(draft, Role.CLIENT)
    lone.session.receive_connection_lost()
    assert lone.events() == [Terminated(code=0, reason="", by_peer=True)]
    assert lone.session.poll_transmit() == []


def test_ends_of_streams_reach_the_session() -> None:
    lone = Lone.established(Draft.D18, Role.CLIENT)
    for end in (lone.session.receive_stream_reset, lone.session.receive_stop_sending):
        request_id = lone.session.subscribe(TRACK)
        end(lone.stream_of(), 5)
        assert lone.events() == [RequestCancelled(request_id=request_id, code=5)]


def test_streams_are_bound_by_the_shell() -> None:
    session = Session(SessionConfig(draft=Draft.D18, role=Role.SERVER))
    (action, _) = session.poll_transmit()
    assert isinstance(action, OpenStream)
    with pytest.raises(StateError):
        session.stream_id(action.stream)
    session.bind_stream(action.stream, 3)
    assert session.stream_id(action.stream) == 3
    assert session.open_streams == 1


@pytest.mark.parametrize("role", list(Role))
@BOTH
def test_what_setup_cannot_say_is_refused_when_the_session_is_made(
    draft: Draft, role: Role
) -> None:
    options = SetupOptions(moqt_implementation="\ud800")
    with pytest.raises(EncodeError):
        Session(SessionConfig(draft=draft, role=role, options=options))


# The package


def test_the_package_exports_every_action_and_event() -> None:
    names = set(package.__all__)
    assert len(names) == len(package.__all__)
    for cls in (*get_args(Action), *get_args(Event)):
        assert cls.__name__ in names
    for name in names:
        assert hasattr(package, name)


def test_the_docstring_names_every_method() -> None:
    words = inspect.getdoc(Session) or ""
    getters = {"options", "open_streams", "request_kind", "stream_id", "going_away"}
    for name in dir(Session):
        if not name.startswith("_") and name not in getters | {"bind_stream"}:
            assert f"``{name}``" in words, name


def test_close_is_the_last_action() -> None:
    lone = Lone.established(Draft.D18, Role.SERVER)
    lone.session.publish_namespace(Namespace.of(b"a"))
    lone.session.close()
    assert isinstance(lone.session.poll_transmit()[-1], CloseSession)


# The page about it

PAGE = Path(__file__).parents[5] / "docs" / "explanation" / "moqt-session.md"


class Connection:
    """A transport that notes what it is asked to do."""

    def __init__(self) -> None:
        self.streams = 0
        self.done: list[object] = []

    def open_stream(self, unidirectional: bool) -> int:
        self.streams += 1
        return (self.streams - 1) << 2 | unidirectional << 1

    def send(self, stream_id: int, data: bytes, fin: bool) -> None:
        self.done.append(("send", stream_id, bool(data), fin))

    def reset(self, stream_id: int, code: int) -> None:
        self.done.append(("reset", stream_id, code))

    def stop_sending(self, stream_id: int, code: int) -> None:
        self.done.append(("stop", stream_id, code))

    def close(self, code: int, reason: str) -> None:
        self.done.append(("close", code, reason))

    def take_over(self, stream_id: int, data: bytes, fin: bool) -> None:
        self.done.append(("data", stream_id, data, fin))

    def handle(self, event: Event) -> None:
        self.done.append(type(event).__name__)


def test_the_loop_that_the_page_shows_works() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = dict(vars(package))
    exec(text.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - it is our own page
    after = names["after"]
    connection = Connection()
    session = Session(SessionConfig(draft=Draft.D18, role=Role.CLIENT))
    session.subscribe(TRACK)
    after(session, connection, connection, connection)
    session.receive_stream_data(3, b"\xaf\x00\x00\x00")
    session.receive_stream_data(7, b"\x10x", True)
    session.cancel(0)
    session.close(0, "bye")
    after(session, connection, connection, connection)
    assert connection.done == [
        ("send", 2, True, False),
        ("send", 4, True, False),
        ("reset", 4, 1),
        ("stop", 4, 1),
        ("close", 0, "bye"),
        "SetupReceived",
        ("data", 7, b"\x10x", True),
        "Terminated",
    ]


def test_the_page_names_every_command_event_and_state() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for state in State:
        assert state.name in text
    for name in ("accept_subscribe", "accept_fetch", "fetch_ended", "publish_done", "bind_stream"):
        assert f"`{name}`" in text
    assert "256" in text
    assert SessionConfig(draft=Draft.D16, role=Role.CLIENT).limits.max_ended == 256
    assert f"up to {MAX_GAPS[Draft.D16]} ids" in text
