"""Settings for all tests: one Hypothesis profile, the same on every machine."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: machines are shared, and speed is a benchmark's business, never a test's.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON, max_examples=60, derandomize=True)
settings.register_profile("thorough", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("LAPS_HYPOTHESIS", "default"))
