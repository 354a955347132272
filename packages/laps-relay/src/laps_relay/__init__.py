"""LAPS relay: reserved layer, filled by a later release."""
