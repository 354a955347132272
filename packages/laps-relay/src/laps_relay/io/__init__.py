"""The shell around the relay's core: connections in, clocks in, nothing decided."""
