"""The client API: sessions, tracks, subscriptions."""
