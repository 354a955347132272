"""One relay and one browser for the pages' tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from testkit.browser import Browser, chromium
from testkit.relay_process import RunningRelay, relay_process


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def relay(browser: Browser) -> Generator[RunningRelay]:
    """Asks for the browser, so that nothing is started where there is none."""
    with relay_process() as running:
        yield running
