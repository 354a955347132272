"""Contacts of relays as people and node information write them."""

from __future__ import annotations

from typing import Final

from laps_wire.errors import LocalError

__all__ = ["PEER_PORT", "ContactError", "parse_contact", "show_contact"]

PEER_PORT: Final = 33434
"""The port of a contact that names none (laps-2, 1.2)."""


class ContactError(LocalError, ValueError):
    """A text that is no contact."""


def parse_contact(text: str) -> tuple[str, int]:
    """Read ``host``, ``host:port``, ``IPv6`` or ``[IPv6]:port``."""
    rest = text.strip()
    if rest.startswith("["):
        host, closing, after = rest[1:].partition("]")
        separator, port = after[:1], after[1:]
        good = bool(closing) and separator in ("", ":")
    elif rest.count(":") > 1:  # an IPv6 address without brackets has no port
        host, separator, port, good = rest, "", "", True
    else:
        host, separator, port = rest.partition(":")
        good = True
    if not separator:
        number = PEER_PORT
    elif port.isascii() and port.isdigit() and len(port) <= 5:
        number = int(port)
    else:
        number = 0
    if not good or not _can_be_a_name(host) or not 0 < number <= 65535:
        raise ContactError(
            f"{text[:80]!a} is no contact: host, host:port or [IPv6]:port with a port of 1 to 65535"
        )
    return host, number


def _can_be_a_name(host: str) -> bool:
    """Whether the host is an address, or a name that somebody can have."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return bool(host) and not any(c.isspace() for c in host)


def show_contact(address: tuple[str, int]) -> str:
    """A contact that :func:`parse_contact` reads as this address."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
