"""Spark: how a session is made."""
