"""Subscriptions across the network: the subscriber's and the origin's side, and their answers."""
