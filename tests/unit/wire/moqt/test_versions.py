"""Drafts: their names and integers."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.buffer import QUIC, VI64
from laps_wire.errors import IncompleteError
from laps_wire.moqt.versions import Draft
from testkit.foreign import draft16_vectors, foreign


def test_each_draft_has_its_integers() -> None:
    assert Draft.D16.integers is QUIC
    assert Draft.D18.integers is VI64


def test_alpn_names() -> None:
    assert [draft.alpn for draft in Draft] == ["moqt-16", "moqt-18"]


@pytest.mark.parametrize("draft", list(Draft))
def test_alpn_leads_back(draft: Draft) -> None:
    assert Draft.from_alpn(draft.alpn) is draft


@pytest.mark.parametrize("alpn", ["moq-00", "moqt-17", "moqt", "MOQT-16", "moqt-016", ""])
def test_other_protocols_are_not_ours(alpn: str) -> None:
    assert Draft.from_alpn(alpn) is None


def test_newer_is_larger() -> None:
    assert Draft.D16 < Draft.D18
    assert Draft(18) is Draft.D18


# The integers of draft 16 against moqtap's vectors, which lie beside the repository, if at all


def _moqtap_integers() -> list[Any]:
    return [pytest.param(vector, id=vector["id"]) for vector in draft16_vectors("varint.json")]


@foreign
@pytest.mark.parametrize("vector", _moqtap_integers())
def test_moqtap_integers(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    integers = Draft.D16.integers
    if "error" in vector:
        with pytest.raises(IncompleteError):
            integers.decode(data, 0, len(data))
        return
    value = int(vector["decoded"]["value"])
    assert integers.decode(data, 0, len(data)) == (value, len(data))
    assert (integers.encode(value) == data) is vector.get("canonical", True)
