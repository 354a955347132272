"""What may leave a relay about people: prefixes of addresses, and text that is safe to print.

Telemetry never carries a track name, a token or a whole address. Tracks are hashes, clients are
address prefixes, and words that a peer chose are escaped and cut before they become a field.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from laps_wire.errors import TextFormError

__all__ = ["MAX_TEXT", "address_prefix", "safe_text"]

MAX_TEXT: Final = 256
"""How many characters of a peer's words are kept."""

_PREFIX_V4: Final = 24
_PREFIX_V6: Final = 48


def address_prefix(address: str) -> str:
    """The network of an address: /24 of IPv4 and /48 of IPv6, so that no host is named."""
    try:
        # A zone ("fe80::1%eth0") names an interface of ours, and is not part of the address.
        host = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        # The text may be anything, a user's name too, so the message does not repeat it.
        raise TextFormError("not an IP address such as 192.0.2.7 or 2001:db8::7") from None
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
        host = host.ipv4_mapped
    bits = _PREFIX_V4 if host.version == 4 else _PREFIX_V6
    return str(ipaddress.ip_network((host, bits), strict=False))


def safe_text(words: str | bytes, limit: int = MAX_TEXT) -> str:
    """A peer's words as one printable line of at most ``limit`` characters.

    Bytes that are not UTF-8 and characters that a terminal would act on become backslash escapes.
    """
    text = words.decode(errors="backslashreplace") if isinstance(words, bytes) else words
    # Each character gives at least one, so the rest cannot matter: work stays bounded.
    shown = "".join(
        char if char.isprintable() and char != "\\" else ascii(char)[1:-1]
        for char in text[: limit + 1]
    )
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."
