"""What the client decides, without I/O, clocks or randomness."""
