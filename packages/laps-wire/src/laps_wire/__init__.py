"""Bytes, messages and sans-IO sessions of LAPS peering, MoQT and QuicR."""
