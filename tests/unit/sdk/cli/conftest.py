from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.commands import commands_once
from testkit.edge_thread import EdgeThread, edge_thread

__all__ = ["commands_once", "edge"]


@pytest.fixture(scope="module")
def edge() -> Iterator[EdgeThread]:
    """One relay for the tests of a module; each test has a namespace of its own."""
    with edge_thread() as relay:
        yield relay
