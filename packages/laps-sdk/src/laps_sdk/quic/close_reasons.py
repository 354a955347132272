"""Words for the transport errors that people meet: what a QUIC library says of them is too little.

A TLS alert is closed with 0x100 plus its number (RFC 9001, 4.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["explain"]

_CRYPTO_ERROR: Final = 0x100
_ALERTS: Final = {
    "handshake_failure": 40,
    "bad_certificate": 42,
    "unsupported_certificate": 43,
    "certificate_revoked": 44,
    "certificate_expired": 45,
    "certificate_unknown": 46,
    "unknown_ca": 48,
    "protocol_version": 70,
    "no_application_protocol": 120,
}
_NAMES: Final = {number: name for name, number in _ALERTS.items()}
_ABOUT_CERTIFICATES: Final = frozenset({42, 43, 44, 45, 46, 48})


def explain(
    code: int, reason: str, by_peer: bool, is_client: bool, protocols: Sequence[str]
) -> str:
    """What a transport error means for us; ``protocols`` are what we offered or take."""
    alert = code - _CRYPTO_ERROR
    if not 0 <= alert < 0x100:
        return reason
    said = f": {reason}" if reason else ""
    # qh3 tells it as a handshake failure, with only the reason to know it by.
    if alert == _ALERTS["no_application_protocol"] or "No common ALPN" in reason:
        ours = ", ".join(protocols) or "none"
        have = "we offered" if is_client else "we take"
        return f"no protocol in common (ALPN): {have} {ours}"
    if alert in _ABOUT_CERTIFICATES:
        if by_peer:
            return f"the peer refused our certificate ({_NAMES[alert]}){said}"
        whose = "the server's" if is_client else "the client's"
        return f"{whose} certificate was refused ({_NAMES[alert]}){said}"
    return f"TLS alert {_NAMES.get(alert, alert)}{said}"
