"""Settings for all tests: one Hypothesis profile, and one coverage context for each test file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# No deadline: machines are shared, and speed is a benchmark's business, never a test's.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON, max_examples=60, derandomize=True)
settings.register_profile("quick", _COMMON, max_examples=20, derandomize=True)
settings.register_profile("thorough", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("LAPS_HYPOTHESIS", "default"))

_CONTEXT = pytest.StashKey[str]()

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every process
# that they start: what is tested is what users have.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Tell coverage whose tests run, so that a module can be held to its own test file.

    Not each test by itself: every change of context writes all that was seen so far.
    """
    coverage = sys.modules.get("coverage")
    running = coverage.Coverage.current() if coverage else None
    file = item.nodeid.partition("::")[0]
    if running is not None and item.config.stash.get(_CONTEXT, "") != file:
        running.switch_context(file)
        item.config.stash[_CONTEXT] = file
    return (yield)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests (``pytest.mark.anyio``) run on asyncio: the transport's loop."""
    return "asyncio"
