"""The node information base: nodes, paths to them, and what is advertised to peers."""
