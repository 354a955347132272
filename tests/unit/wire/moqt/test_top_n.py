from __future__ import annotations

import pytest

from laps_wire.errors import EncodeError, StateError
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.top_n import (
    TOP_N_OPTION,
    TOP_N_PARAMETER,
    offered_top_n,
    requested_top_n,
    top_n_options,
    top_n_parameter,
)
from laps_wire.moqt.versions import Draft

KNOWS = (KeyValue(TOP_N_OPTION, 0),)


def test_a_session_asks_in_its_setup() -> None:
    assert top_n_options() == KNOWS
    assert top_n_options(5) == (KeyValue(TOP_N_OPTION, 5),)
    with pytest.raises(EncodeError, match="1 or more"):
        top_n_options(-1)


def test_a_prefix_asks_with_a_parameter() -> None:
    assert top_n_parameter(100, Draft.D16, KNOWS) == (KeyValue(TOP_N_PARAMETER, b"\x40\x64"),)


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(EncodeError, match="1 or more"):
        top_n_parameter(0, Draft.D16, KNOWS)
    with pytest.raises(StateError, match=r"use connect\(\.\.\., top_n=3\)"):
        top_n_parameter(3, Draft.D18, KNOWS)
    with pytest.raises(StateError, match="does not rank"):
        top_n_parameter(3, Draft.D16, ())


def test_what_a_request_says_is_read() -> None:
    assert requested_top_n((KeyValue(TOP_N_PARAMETER, b"\x05"),), Draft.D16) == 5
    assert requested_top_n((KeyValue(TOP_N_PARAMETER, b"\x40\x40"),), Draft.D16) == 64
    assert requested_top_n((KeyValue(TOP_N_PARAMETER, b"\x00"),), Draft.D16) is None
    assert requested_top_n((KeyValue(TOP_N_PARAMETER, b""),), Draft.D16) is None
    assert requested_top_n((KeyValue(TOP_N_PARAMETER, b"\xff"),), Draft.D18) is None
    assert requested_top_n((), Draft.D16) is None


def test_what_a_setup_says_is_read() -> None:
    assert offered_top_n(top_n_options(3)) == 3
    assert offered_top_n(top_n_options()) is None
    assert offered_top_n(()) is None
    assert offered_top_n((KeyValue(TOP_N_OPTION + 1, b"x"),)) is None
