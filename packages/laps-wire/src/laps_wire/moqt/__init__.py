"""MoQT drafts 16 and 18: control messages, data streams and sans-IO sessions."""
