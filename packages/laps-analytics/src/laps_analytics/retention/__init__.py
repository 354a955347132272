"""How long a lake keeps what: :mod:`laps_analytics.retention.run`."""
