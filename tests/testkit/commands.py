"""A command line is made once: for each call typer would read the types of all commands anew.

A ``conftest.py`` that imports :func:`commands_once` has it for its tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import typer.testing

__all__ = ["commands_once"]


@pytest.fixture(scope="session", autouse=True)
def commands_once() -> Iterator[None]:
    """While it lasts, ``CliRunner`` has one command for each app."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))
        yield
