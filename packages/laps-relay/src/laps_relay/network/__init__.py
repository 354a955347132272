"""The relay as a member of the network: nodes, floods, subscriptions, sets, steering, fetch."""
