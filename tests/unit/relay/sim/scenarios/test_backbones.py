from __future__ import annotations

import sys

import pytest

from laps_relay.sim.scenarios.backbones import backbone
from laps_relay.sim.scenarios.topology import TopologyError


def test_real_backbones_are_there() -> None:
    pytest.importorskip("topohub")
    abilene = backbone("topozoo/Abilene")
    assert (len(abilene.relays), len(abilene.links)) == (11, 14)
    assert all(0.0005 <= link.delay < 0.03 for link in abilene.links)
    germany = backbone("sndlib/germany50")
    assert (len(germany.relays), len(germany.links)) == (50, 88)
    assert len({relay.relay_type for relay in germany.relays}) == 2
    # Maps in several pieces: the largest is used, and its links are all inside it.
    europe = backbone("backbone/europe")
    names = {relay.name for relay in europe.relays}
    assert all(link.a in names and link.b in names for link in europe.links)


def test_an_unknown_one_is_said() -> None:
    pytest.importorskip("topohub")
    with pytest.raises(TopologyError, match="topohub has no 'topozoo/Nowhere'"):
        backbone("topozoo/Nowhere")


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "topohub", None)
    with pytest.raises(TopologyError, match=r"laps-relay\[sim\]"):
        backbone("topozoo/Abilene")
