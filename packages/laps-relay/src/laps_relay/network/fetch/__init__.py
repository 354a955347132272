"""FETCH across the network."""
