"""The forwarding plane between relays: streams and datagrams, from one session to others."""
