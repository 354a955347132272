"""Settings for all tests: a Hypothesis profile, signals, garbage."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# No deadline: machines are shared, and speed is a benchmark's business, never a test's.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON, max_examples=60, derandomize=True)
settings.register_profile("quick", _COMMON, max_examples=20, derandomize=True)
settings.register_profile("few", _COMMON, max_examples=10, derandomize=True)
settings.register_profile("thorough", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("LAPS_HYPOTHESIS", "default"))

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every process
# that they start: what is tested is what users have.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is read now stays until the end: there is no garbage to look for, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests (``pytest.mark.anyio``) run on asyncio: the transport's loop."""
    return "asyncio"
