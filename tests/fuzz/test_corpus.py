"""Every kept fuzz input, on every Python: what was once found stays found.

Also holds the corpus to its targets: a file for each target, no file without one.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
sys.path.insert(0, str(HERE))

TARGETS = sorted(
    path.stem for path in (HERE / "targets").glob("*.py") if not path.stem.startswith("_")
)


@pytest.mark.parametrize("target", TARGETS)
def test_the_kept_inputs_hold(target: str) -> None:
    module = importlib.import_module(f"targets.{target}")
    lines = (CORPUS / f"{target}.hex").read_text(encoding="ascii").split()
    inputs = [*module.seeds(), *(bytes.fromhex(line) for line in lines)]
    assert len(inputs) > len(lines) > 0
    for data in inputs:
        module.one_input(data)


def test_enough_targets_and_no_corpus_without_one() -> None:
    assert len(TARGETS) >= 12
    assert {path.stem for path in CORPUS.iterdir()} == set(TARGETS)
