"""The Stub relay: it dials a parent and is invisible above it."""
