from __future__ import annotations

import pytest

from laps_sdk.quic.library import explain


@pytest.mark.parametrize(
    ("code", "reason", "by_peer", "is_client", "expected"),
    [
        (0x178, "", True, True, "no protocol in common (ALPN): we offered a, b"),
        (0x178, "", False, False, "no protocol in common (ALPN): we take a, b"),
        (0x128, "No common ALPN protocols", True, True,
         "no protocol in common (ALPN): we offered a, b"),
        (0x12A, "self-signed", False, True,
         "the server's certificate was refused (bad_certificate): self-signed"),
        (0x130, "", False, False, "the client's certificate was refused (unknown_ca)"),
        (0x12D, "", True, False, "the peer refused our certificate (certificate_expired)"),
        (0x128, "No supported cipher suite", True, True,
         "TLS alert handshake_failure: No supported cipher suite"),
        (0x132, "", True, True, "TLS alert 50"),
        (0x7, "frame", True, True, "frame"),
        (0x200, "other", True, True, "other"),
    ],
)  # fmt: skip
def test_what_errors_mean(
    code: int, reason: str, by_peer: bool, is_client: bool, expected: str
) -> None:
    assert explain(code, reason, by_peer, is_client, ("a", "b")) == expected


def test_no_protocols_at_all() -> None:
    assert explain(0x178, "", True, True, ()).endswith("we offered none")
