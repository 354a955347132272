"""The forwarding plane in Python: fan-out and cache."""
