"""From files that relays wrote to silver tables."""
