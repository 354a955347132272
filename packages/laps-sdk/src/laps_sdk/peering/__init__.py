"""Authenticated connections to relays."""
