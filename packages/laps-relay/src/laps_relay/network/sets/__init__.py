"""Subscriber-node sets: which peers get a track's data."""
