from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from laps_relay.server.edge_view import reachable


@pytest.mark.parametrize(
    ("bound", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]"),
        ("::", "localhost"),
        (str(IPv4Address(0)), "127.0.0.1"),
    ],
)
def test_a_url_names_an_address_that_can_be_reached(bound: str, shown: str) -> None:
    # The rest of the view is tested with a whole relay, in test_relay_app.py.
    assert reachable(bound) == shown
