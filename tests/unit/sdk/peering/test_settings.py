"""What a relay offers to every peer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.peering.settings import (
    ContactError,
    PeeringSettings,
    features_of,
    parse_contact,
    settings_of,
    show_contact,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Feature, RelayType
from laps_wire.peering.session import Role


def test_settings_say_what_we_hold() -> None:
    offered = settings_of(
        PeeringSettings(
            hold=12.5,
            batch=0.05,
            unknown_time=0.25,
            unknown_bytes=1000,
            max_nodes=1,
            max_announces=2,
            max_subscribes=3,
            max_sets=4,
            max_targets=5,
            max_message=100_000,
        ),
        hash_check=9,
        expected=NodeId(7),
        implementation="laps",
    )
    assert (offered.hold_ms, offered.batch_ms, offered.unknown_sns_ms) == (12_500, 50, 250)
    assert (offered.max_nodes, offered.max_announces, offered.max_subscribes) == (1, 2, 3)
    assert (offered.max_sns_sets, offered.max_sns_targets) == (4, 5)
    assert (offered.unknown_sns_bytes, offered.max_message_size) == (1000, 100_000)
    assert (offered.hash_check, offered.expected_node) == (9, 7)
    assert offered.implementation == "laps"


def test_what_is_out_of_range_is_brought_into_it() -> None:
    wild = PeeringSettings(hold=1e9, batch=1e9, unknown_time=1e9, max_message=1 << 30)
    offered = settings_of(wild, hash_check=None)
    assert (offered.hold_ms, offered.batch_ms) == (86_400_000, 10_000)
    assert (offered.unknown_sns_ms, offered.max_message_size) == (60_000, 1_048_576)
    small = settings_of(PeeringSettings(hold=-1.0, max_message=1), hash_check=None)
    assert (small.hold_ms, small.max_message_size) == (0, 65_536)


def test_features_ascend_and_follow_the_settings() -> None:
    plain = PeeringSettings(plaintext_names=False, signed_nodes=False)
    full = PeeringSettings(plaintext_names=True, signed_nodes=True)
    assert features_of(plain, Role.LISTENER, RelayType.EDGE) == (
        Feature.DATAGRAMS,
        Feature.PROBES,
        Feature.FETCHES,
        Feature.STAYS,
        Feature.REPAIR,
    )
    assert features_of(full, Role.LISTENER, RelayType.VIA) == (
        Feature.DATAGRAMS,
        Feature.PROBES,
        Feature.SIGNED_NODES,
        Feature.PLAINTEXT_NAMES,
        Feature.FETCHES,
        Feature.STAYS,
        Feature.REPAIR,
    )


def test_shards_are_a_listening_control_servers() -> None:
    sharded = Feature.SHARDED_SUBSCRIBES
    settings = PeeringSettings()
    assert sharded in features_of(settings, Role.LISTENER, RelayType.CONTROL)
    assert sharded not in features_of(settings, Role.LISTENER, RelayType.EDGE)
    assert sharded in features_of(settings, Role.DIALLER, RelayType.EDGE)


# Contacts


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("relay.example", ("relay.example", 33434)),
        ("relay.example:1", ("relay.example", 1)),
        (" 192.0.2.1:65535 ", ("192.0.2.1", 65535)),
        ("2001:db8::1", ("2001:db8::1", 33434)),
        ("[2001:db8::1]", ("2001:db8::1", 33434)),
        ("[2001:db8::1]:443", ("2001:db8::1", 443)),
    ],
)
def test_forms(text: str, address: tuple[str, int]) -> None:
    assert parse_contact(text) == address
    assert parse_contact(show_contact(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", ":1", "a:", "a:0", "a:65536", "a:x", "a:1e3", "a:٣", "[::1", "[::1]x", "[::1]:"),
        *("a b:1", "a..b:1", "x" * 70, "\udc80:1"),
    ],
)
def test_what_is_no_contact(text: str) -> None:
    with pytest.raises(ContactError, match="is no contact"):
        parse_contact(text)


@given(st.text(max_size=300))
def test_any_text_is_a_contact_or_is_refused(text: str) -> None:
    try:
        host, port = parse_contact(text)
    except ContactError:
        return
    assert host
    assert 0 < port <= 65535
