from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from laps_relay.config.model import (
    Cache,
    Connection,
    Egress,
    Limits,
    Plane,
    RelayConfig,
    default_state_dir,
)
from laps_sdk.quic.moqt import DRAFTS

EVERYWHERE = "::"


def test_the_defaults_are_those_of_a_laptop() -> None:
    config = RelayConfig()
    assert (config.listen.host, config.listen.client_port) == ("127.0.0.1", 33435)
    assert (config.admin.host, config.admin.port) == ("127.0.0.1", 33480)
    assert config.admin.is_loopback
    assert config.state_dir == default_state_dir()
    assert tuple(config.listen.drafts) == DRAFTS
    assert config.auth.keys == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"admin": {"host": EVERYWHERE}}, "token is needed"),
        ({"admin": {"token": "short"}}, "shorter than 16"),
        ({"admin": {"token": "x" * 16, "token_file": "/f"}}, "set one of them"),
        ({"tls": {"private_key": "/k"}}, "private_key without certificate"),
        ({"auth": {"anonymous": ["dance:*"]}}, "unknown action"),
        ({"auth": {"leeway": "long"}}, "a duration is"),
        ({"listen": {"transport": "carrier pigeon"}}, "aioquic"),
        ({"other": 1}, "Extra inputs"),
        (
            {"listen": {"drafts": ["moqt-99"]}},
            "'moqt-99' is not spoken here; known: moqt-18, moqt-16",
        ),
        ({"listen": {"drafts": []}}, "one or more"),
        ({"listen": {"drafts": "moqt-16, moqt-16"}}, "each of them once"),
        ({"listen": {"client_port": True}}, "not true or false"),
        ({"cache": {"max_bytes": True}}, "not true or false"),
        ({"cache": {"max_age": False}}, "not true or false"),
        ({"state_dir": "~nobody-of-this-name/x"}, "home directory"),
        ({"state_dir": "a\0b"}, "no zero bytes"),
        ({"observe": {"telemetry_dir": ""}}, "not empty"),
        ({"observe": {"reports": {"enabled": True}}}, "nobody would read the reports"),
        ({"observe": {"reports": {"namespace": ""}}}, "one field or more"),
        ({"observe": {"reports": {"namespace": "a/b"}}}, "namespace"),
        ({"observe": {"reports": {"object_bytes": "1MiB"}}}, "less than or equal to 4096"),
        ({"network": {"node_id": "../x"}}, "node"),
        ({"network": {"region": "a\nb"}}, "printable"),
        ({"network": {"workers": 2, "type": "via"}}, "workers are Edges, and the type is via"),
        ({"network": {"workers": 0}}, "greater than or equal to 1"),
        ({"network": {"client_url": "https://a:1"}}, "write moqt://host:port"),
        ({"network": {"client_url": "moqt://a"}}, "write moqt://host:port"),
        ({"admin": {"token": "\u00fc" * 16}}, "no header can carry it"),
        ({"admin": {"token": "x" * 16 + "\n"}}, "no header can carry it"),
        ({"auth": {"audience": "us"}}, "audience without keys"),
        ({"auth": {"anonymous": "sub:a", "setup_required": True}}, "anonymous, setup_required"),
        ({"limits": {"egress": {"low_water": "1MiB"}}}, "above high_water"),
    ],
)
def test_what_is_refused(data: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RelayConfig.model_validate(data)


@pytest.mark.parametrize(
    "data",
    [
        {"admin": {"host": EVERYWHERE, "token": "x" * 16}},
        {"admin": {"host": EVERYWHERE, "token_file": "/f"}},
        {"admin": {"host": EVERYWHERE, "enabled": False}},
        {"tls": {"certificate": "/c", "private_key": "/k"}},
        {"network": {"workers": 4, "client_url": "moqt://relay.example:33435"}},
        {"auth": {"keys": "/k", "anonymous": "sub:public/*, pub:open", "token_types": "1,16"}},
    ],
)
def test_what_is_taken(data: Any) -> None:
    RelayConfig.model_validate(data)


def test_a_home_directory_is_written_with_a_tilde() -> None:
    config = RelayConfig.model_validate({"state_dir": "~/x", "auth": {"keys": "~/k"}})
    assert config.state_dir == Path.home() / "x"
    assert config.auth.keys == [Path.home() / "k"]


def test_workers_make_a_network_of_their_own() -> None:
    network = RelayConfig.model_validate({"network": {"workers": 2}}).network
    assert network.active
    assert not network.meets_others
    assert not RelayConfig().network.active
    for data in ({"enabled": True}, {"peers": "a:1"}, {"type": "via"}):
        assert RelayConfig.model_validate({"network": data}).network.meets_others


def test_every_limit_can_be_set_in_words() -> None:
    limits = Limits.model_validate(
        {"linger": "2s", "egress": {"max_bytes": "1MiB"}, "plane": {"pending_time": "1s"}}
    )
    assert limits.linger == 2.0
    assert limits.egress.max_bytes == 1 << 20
    assert limits.plane == Plane(pending_time=1.0)
    assert limits.connection == Connection()
    assert Egress().low_water < Egress().high_water < Egress().max_bytes
    assert Cache().max_track_bytes < Cache().max_bytes
