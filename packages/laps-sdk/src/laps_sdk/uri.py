"""Where a relay is: ``moqt://`` (raw QUIC) and ``https://`` (WebTransport) addresses.

::

    moqt://relay.example:33435/path?query     raw QUIC; path and authority go into SETUP
    https://relay.example:33435/moq           WebTransport over HTTP/3
    relay.example                             the same as moqt://relay.example:33435

Port 33435 if none is said, for both schemes. A WebTransport path is ``/moq`` if none is said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from laps_wire.errors import TextFormError

__all__ = ["DEFAULT_PORT", "RelayAddress", "parse_address"]

DEFAULT_PORT: Final = 33435
_WEBTRANSPORT_PATH: Final = "/moq"
_EXAMPLE: Final = "moqt://relay.example:33435"
_SCHEMES: Final = ("moqt", "https")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._\-]*[A-Za-z0-9.])?")
_PATH: Final = re.compile(r"/[A-Za-z0-9\-._~!$&'()*+,;=:@%/?]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAddress:
    """A parsed address."""

    host: str
    """A name or an IP address, IPv6 without brackets."""
    port: int = DEFAULT_PORT
    path: str = ""
    """With its query; "" if none was said over raw QUIC."""
    webtransport: bool = False

    @property
    def authority(self) -> str:
        """Host and port as SETUP and HTTP/3 have them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether this is this machine, by its address or by the name localhost."""
        name = self.host.rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"{'https' if self.webtransport else 'moqt'}://{self.authority}{self.path}"


def parse_address(text: str) -> RelayAddress:
    """Read an address; ``TextFormError`` says what is wrong, where, and what a good one is."""
    start = 0
    scheme = "moqt"
    found = _SCHEME.match(text)
    if found:
        scheme = found[1].lower()
        start = found.end()
        if scheme not in _SCHEMES:
            raise _fault(text, 0, f"scheme {scheme!r} is neither 'moqt' nor 'https'")
    end = start
    while end < len(text) and text[end] not in "/?#":
        end += 1
    host, port = _host_and_port(text, start, end)
    path = text[end:]
    if path.startswith("?"):
        path = f"/{path}"
    hash_at = text.find("#", end)
    if hash_at >= 0:
        raise _fault(text, hash_at, "a fragment means nothing here")
    if path and not _PATH.fullmatch(path):
        raise _fault(text, end, "a path with characters that must be percent-encoded")
    webtransport = scheme == "https"
    if webtransport and not path:
        path = _WEBTRANSPORT_PATH
    return RelayAddress(host=host, port=port, path=path, webtransport=webtransport)


def _host_and_port(text: str, start: int, end: int) -> tuple[str, int]:
    if "@" in text[start:end]:
        raise _fault(text, text.index("@", start), "user names are not taken: use a token")
    if text.startswith("[", start):
        close = text.find("]", start, end)
        if close < 0:
            raise _fault(text, start, "'[' without ']'")
        host, rest = text[start + 1 : close], close + 1
        if not _is_address(host):
            raise _fault(text, start + 1, f"{host!a} is not an IPv6 address")
    else:
        rest = text.find(":", start, end)
        rest = end if rest < 0 else rest
        host = text[start:rest]
        if text.count(":", start, end) > 1:
            raise _fault(text, start, "an IPv6 address must stand in brackets")
        if not host:
            raise _fault(text, start, "no host")
        if not _HOST.fullmatch(host):
            raise _fault(text, start, f"{host!a} is not a host name")
    if rest == end:
        return host, DEFAULT_PORT
    digits = text[rest + 1 : end]
    if text[rest] != ":" or not (digits.isascii() and digits.isdigit()):
        raise _fault(text, rest, "what follows the host is not ':' and a port")
    port = int(digits[:6])
    if not 0 < port < 65536:
        raise _fault(text, rest + 1, "a port is 1 to 65535")
    return host, port


def _is_address(host: str) -> bool:
    try:
        return ip_address(host).version == 6
    except ValueError:
        return False


def _fault(text: str, index: int, reason: str) -> TextFormError:
    return TextFormError.at("relay address", text, index, reason, example=_EXAMPLE)
