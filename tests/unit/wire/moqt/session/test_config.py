from __future__ import annotations

import dataclasses

import pytest

from laps_wire.moqt.session.config import Role, SessionConfig, SessionLimits, Transport
from laps_wire.moqt.setup import NO_OPTIONS
from laps_wire.moqt.versions import Draft


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
