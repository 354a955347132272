"""LAPS analytics: reserved layer, filled by a later release."""
