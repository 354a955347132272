"""What the tests of the client share: each runs in both drafts."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["moqt-18", "moqt-16"])
def draft(request: pytest.FixtureRequest) -> str:
    """The draft that client and server speak."""
    return str(request.param)
