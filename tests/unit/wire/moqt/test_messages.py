"""The message model: values, nothing more; both drafts' messages and no others."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any, get_args

import pytest

from laps_wire.moqt import messages as m
from laps_wire.moqt.codepoints import MessageTypeD16, MessageTypeD18, SubscribeOptions
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.setup import NO_OPTIONS
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace

TRACK = FullTrackName(Namespace.of(b"live"), b"video")
CLASSES: tuple[Any, ...] = get_args(m.Message)


def spec_name(cls: type) -> str:
    """``PublishNamespaceDone`` as the drafts write it."""
    name = cls.__name__.removesuffix("Message")
    return "".join(f"_{char}" if char.isupper() else char for char in name).strip("_").upper()


def test_there_is_a_class_for_each_message_of_either_draft() -> None:
    names = set(MessageTypeD16.__members__) | set(MessageTypeD18.__members__)
    assert {spec_name(cls) for cls in CLASSES} == names


@pytest.mark.parametrize("cls", CLASSES)
def test_a_message_is_a_frozen_slotted_value(cls: Any) -> None:
    assert "__dict__" not in dir(cls)
    assert cls.__name__ in m.__all__
    assert spec_name(cls) in (cls.__doc__ or "")
    message = cls(*range(len(fields(cls))))
    assert message == cls(*range(len(fields(cls))))
    assert hash(message) == hash(cls(*range(len(fields(cls)))))
    with pytest.raises(FrozenInstanceError):
        setattr(message, fields(cls)[0].name, 7)


def test_what_is_not_said_has_the_drafts_default() -> None:
    assert m.Subscribe(0, TRACK).parameters is NO_PARAMETERS
    assert Parameters() == NO_PARAMETERS
    assert m.ClientSetup().options is NO_OPTIONS
    assert m.Goaway() == m.Goaway("", 0, None)
    assert m.RequestOk() == m.RequestOk(None, NO_PARAMETERS, ())
    assert m.RequestError(None, 0) == m.RequestError(None, 0, 0, "", None)
    assert m.SubscribeNamespace(0, Namespace()).options is SubscribeOptions.NAMESPACE
    assert m.PublishDone(None, 2, m.STREAM_COUNT_UNKNOWN).stream_count == 4611686018427387903


def test_the_three_kinds_of_fetch_differ() -> None:
    relative, absolute = m.RelativeJoiningFetch(0, 1), m.AbsoluteJoiningFetch(0, 1)
    standalone = m.StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))
    assert len({m.Fetch(0, target) for target in (relative, absolute, standalone)}) == 3
    assert set(get_args(m.FetchTarget)) == {type(relative), type(absolute), type(standalone)}
