"""Sessions, namespaces, tracks and requests: what the relay decides for MoQT clients."""
