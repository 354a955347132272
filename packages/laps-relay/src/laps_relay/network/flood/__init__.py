"""Announce and subscribe entries, flooded between relays."""
