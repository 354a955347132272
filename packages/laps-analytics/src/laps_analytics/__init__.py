"""LAPS analytics: from relay telemetry to answers and plans, on Spark."""
