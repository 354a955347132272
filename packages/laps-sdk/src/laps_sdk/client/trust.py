"""Which certificate a client believes.

A relay that was started without arguments makes a development certificate in its state directory.
A client on the same machine and of the same user finds it there, so that the first minute needs no
flags; nobody else's file is believed, and only for loopback addresses.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from pathlib import Path

from laps_sdk.client.options import ConnectOptions, parse_pin
from laps_sdk.quic.engine import Tls
from laps_sdk.uri import RelayAddress

__all__ = ["DEV_CERTIFICATE", "development_pin", "state_directory", "tls_for"]

DEV_CERTIFICATE = "dev-cert.pem"
"""The file in the relay's state directory."""


def state_directory() -> Path:
    """Where a relay of this user keeps its state: $LAPS_STATE_DIR, or ~/.local/state/laps."""
    named = os.environ.get("LAPS_STATE_DIR")
    return Path(named) if named else Path.home() / ".local" / "state" / "laps"


def development_pin(path: Path) -> bytes | None:
    """The SHA-256 of a development certificate; None without one that is this user's own."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            text = file.read(65536).decode("ascii", errors="replace")
    except OSError:
        return None
    start = text.find("-----BEGIN CERTIFICATE-----")
    end = text.find("-----END CERTIFICATE-----", start)
    if start < 0 or end < 0:
        return None
    try:
        der = ssl.PEM_cert_to_DER_cert(text[start : end + len("-----END CERTIFICATE-----")])
    except ValueError:
        return None
    return hashlib.sha256(der).digest()


def tls_for(address: RelayAddress, options: ConnectOptions) -> Tls:
    """What to believe at this address."""
    pins: frozenset[bytes] = frozenset()
    if options.pin is not None:
        pins = frozenset({parse_pin(options.pin)})
    elif not options.ca_file and not options.insecure and address.is_loopback:
        found = development_pin(state_directory() / DEV_CERTIFICATE)
        if found is not None:
            pins = frozenset({found})
    return Tls(ca_file=options.ca_file, pinned_sha256=pins, verify=not options.insecure)
