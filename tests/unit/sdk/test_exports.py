"""The public names of the SDK; ``tests/vectors/public-names-sdk.json`` holds the list.

To change it on purpose run ``LAPS_UPDATE_EXPORTS=1 pytest tests/unit/sdk/test_exports.py`` and look
at the diff.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import laps_sdk
from laps_sdk import tokens
from testkit.exports import check_handed_on, check_locked, check_promises, modules_of

PUBLIC = ["laps_sdk", "laps_sdk.testing"]
"""What applications import; everything else may change between versions."""
MODULES = [
    name
    for name in modules_of(laps_sdk)
    if name.startswith(("laps_sdk.client", "laps_sdk.errors", "laps_sdk.testing", "laps_sdk.uri"))
]


def test_the_public_names_are_the_locked_ones() -> None:
    check_locked(PUBLIC, "public-names-sdk.json")


@pytest.mark.parametrize("name", MODULES)
def test_what_is_promised_is_there(name: str) -> None:
    check_promises(name, package=name in {"laps_sdk.client", "laps_sdk.client.core"})


def test_the_package_only_hands_on() -> None:
    check_handed_on("laps_sdk")


def test_every_name_is_found_and_no_other() -> None:
    assert set(laps_sdk.__all__) == set(laps_sdk._HOME_OF)
    assert set(laps_sdk.__all__) <= set(dir(laps_sdk))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = laps_sdk.nothing


def test_the_transport_does_not_load_the_client() -> None:
    script = "import sys, laps_sdk.quic.base; sys.exit('laps_sdk.client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_command_that_shows_lines_loads_nothing_that_draws_or_signs() -> None:
    script = (
        "import sys, laps_sdk.cli.commands; sys.exit('cwt' in sys.modules or 'rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_name_of_the_tokens_is_found_and_no_other() -> None:
    assert set(tokens._LAZY) <= set(tokens.__all__) <= set(dir(tokens))
    assert all(getattr(tokens, name) is not None for name in tokens.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tokens.nothing
