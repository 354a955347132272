"""Sessions with C++ LAPS relays."""
