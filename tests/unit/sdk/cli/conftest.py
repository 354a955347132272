from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.edge_thread import EdgeThread, edge_thread


@pytest.fixture(scope="module")
def edge() -> Iterator[EdgeThread]:
    """One relay for the tests of a module; each test has a namespace of its own."""
    with edge_thread() as relay:
        yield relay
