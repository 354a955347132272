"""Settings for all tests: a Hypothesis profile, and what coverage is told."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from testkit.measuring import measuring

# No deadline: machines are shared, and speed is a benchmark's business, never a test's.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON, max_examples=60, derandomize=True)
settings.register_profile("quick", _COMMON, max_examples=20, derandomize=True)
settings.register_profile("few", _COMMON, max_examples=10, derandomize=True)
settings.register_profile("thorough", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("LAPS_HYPOTHESIS", "default"))

_MEASURING = measuring()

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every process
# that they start: what is tested is what users have.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Where pytest-xdist runs the tests in processes of their own, they are measured there."""
    hands_out = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if _MEASURING is not None and hands_out:
        _MEASURING.leave_to_workers()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is read now stays until the end: there is no garbage to look for, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Tell coverage, where it runs, whose tests run and when it has seen enough."""
    if _MEASURING is None:
        return (yield)
    _MEASURING.begin(item)
    try:
        return (yield)
    finally:
        _MEASURING.end()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests (``pytest.mark.anyio``) run on asyncio: the transport's loop."""
    return "asyncio"
