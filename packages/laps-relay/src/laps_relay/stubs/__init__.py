"""The parent's side of a Stub's session."""
