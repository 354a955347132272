"""Builders of gold tables."""
