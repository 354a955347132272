"""What can be seen of a relay from outside: logs, telemetry files, metrics, traces."""
