"""One Spark session for all tests."""

from __future__ import annotations

from testkit.spark import spark, usual_spark

__all__ = ["spark", "usual_spark"]
