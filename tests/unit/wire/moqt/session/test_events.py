"""The values that go into a session and come out: configuration, events, actions."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from laps_wire.moqt.session import (
    Action,
    CloseSession,
    Event,
    OkMessage,
    Role,
    SendData,
    SessionConfig,
    SessionLimits,
    StreamRef,
    Transport,
    events,
)
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.tables import KINDS
from laps_wire.moqt.setup import NO_OPTIONS
from laps_wire.moqt.versions import Draft

EVENTS = get_args(Event)


def test_the_unions_have_every_event_and_every_action() -> None:
    members = {cls.__name__ for cls in (*EVENTS, *get_args(Action))}
    others = {"Action", "Event", "OkMessage", "RequestMessage", "StreamRef"}
    configuration = {"Role", "SessionConfig", "SessionLimits", "Transport"}
    assert members == set(events.__all__) - others - configuration


@pytest.mark.parametrize("event", EVENTS, ids=lambda cls: cls.__name__)
def test_events_are_frozen_and_take_keywords_only(event: type) -> None:
    names = [item.name for item in dataclasses.fields(event)]
    with pytest.raises(TypeError):
        event(*names)
    value = event(**dict.fromkeys(names))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, names[0], 1)


def test_every_request_message_has_a_kind() -> None:
    assert set(KINDS) == set(get_args(RequestMessage))
    assert len(get_args(OkMessage)) == 4


def test_every_action_is_frozen_and_hashable() -> None:
    for cls in (StreamRef, *get_args(Action)):
        fields = [item for item in dataclasses.fields(cls) if item.default is dataclasses.MISSING]
        value = cls(*range(len(fields)))
        assert value == cls(*range(len(fields)))
        assert hash(value) == hash(cls(*range(len(fields))))
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, fields[0].name, None)


def test_data_does_not_end_a_stream_by_itself() -> None:
    assert not SendData(StreamRef(1), b"x").fin
    assert CloseSession(3, "why").reason == "why"


def test_roles_have_each_other_and_their_parity() -> None:
    assert Role.CLIENT.peer is Role.SERVER
    assert Role.SERVER.peer is Role.CLIENT
    assert (Role.CLIENT.first_request_id, Role.SERVER.first_request_id) == (0, 1)


def test_defaults() -> None:
    config = SessionConfig(draft=Draft.D18, role=Role.CLIENT)
    assert config.transport is Transport.QUIC
    assert config.options is NO_OPTIONS
    assert config.extensions == frozenset()
    assert config.limits == SessionLimits()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.draft = Draft.D16  # type: ignore[misc]


def test_every_limit_lends_something_and_not_everything() -> None:
    for item in dataclasses.fields(SessionLimits):
        assert 1 <= getattr(SessionLimits(), item.name) <= 1 << 20
