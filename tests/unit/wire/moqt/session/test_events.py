from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from laps_wire.moqt.session import events
from laps_wire.moqt.session.events import Event, OkMessage, RequestMessage
from laps_wire.moqt.session.tables import KINDS

EVENTS = get_args(Event)


def test_the_union_has_every_event() -> None:
    others = {"Event", "OkMessage", "RequestMessage"}
    assert {cls.__name__ for cls in EVENTS} == set(events.__all__) - others


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
