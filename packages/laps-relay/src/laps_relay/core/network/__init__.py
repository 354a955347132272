"""The relay network, sans-IO: information bases, selection, policy, sets (docs/spec/laps-2.md)."""
