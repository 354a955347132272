"""LAPS client SDK: reserved layer, filled by a later release."""
