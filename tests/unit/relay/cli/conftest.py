"""Commands of the relay, called in the process of the tests."""

from __future__ import annotations

from testkit.commands import commands_once

__all__ = ["commands_once"]
