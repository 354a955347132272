"""Every test of this folder that asks for ``backends`` runs on every backend and mixed pair."""

from __future__ import annotations

import pytest

from testkit.conformance import BACKENDS, Backends


@pytest.fixture(params=BACKENDS, ids=str)
def backends(request: pytest.FixtureRequest) -> Backends:
    """Who serves and who dials."""
    found: Backends = request.param
    if "qh3" in found:
        pytest.importorskip("qh3", reason="the extra `turbo` is not installed")
    return found
