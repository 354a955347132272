from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from laps_wire.moqt.session import actions
from laps_wire.moqt.session.actions import Action, CloseSession, SendData, StreamRef


def test_every_action_is_frozen_and_hashable() -> None:
    for cls in (StreamRef, *get_args(Action)):
        fields = [item for item in dataclasses.fields(cls) if item.default is dataclasses.MISSING]
        value = cls(*range(len(fields)))
        assert value == cls(*range(len(fields)))
        assert hash(value) == hash(cls(*range(len(fields))))
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, fields[0].name, None)


def test_the_union_has_every_action() -> None:
    names = {cls.__name__ for cls in get_args(Action)}
    assert names | {"Action", "StreamRef"} == set(actions.__all__)


def test_data_does_not_end_a_stream_by_itself() -> None:
    assert not SendData(StreamRef(1), b"x").fin
    assert CloseSession(3, "why").reason == "why"
