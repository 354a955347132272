"""What the engines of both libraries share: set-up, certificates, and the words for errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aioquic.quic.logger
import pytest
import qh3.quic.logger
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.errors import TransportError
from laps_sdk.quic import library
from laps_sdk.quic.engine import Burst, Tls
from laps_sdk.quic.library import bounded_traces, bursts_of, explain, long_header_ids
from laps_sdk.quic.tls import CertificateError, dev_certificate
from testkit.certs import certificates
from testkit.engines import ENGINES, Link, make_engine

ADDRESS = ("192.0.2.9", 9)


@given(st.binary(max_size=20), st.binary(max_size=20), st.binary(max_size=20))
def test_the_ids_of_a_long_header(destination: bytes, source: bytes, rest: bytes) -> None:
    header = b"\xc3\x00\x00\x00\x01"
    packet = b"".join(
        (header, bytes([len(destination)]), destination, bytes([len(source)]), source, rest)
    )
    assert long_header_ids(packet) == (destination, source)
    for length in range(len(packet) - len(rest)):
        with pytest.raises(TransportError):
            long_header_ids(packet[:length])


@given(st.binary(max_size=60))
def test_garbage_is_no_long_header_or_has_ids(data: bytes) -> None:
    try:
        destination, source = long_header_ids(data)
    except TransportError:
        return
    assert data[6:].startswith(destination)
    assert source in data


@pytest.mark.parametrize("name", ENGINES)
def test_a_bad_certificate_is_told_when_the_engine_is_made(name: str, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot be read"):
        make_engine(name, server=True, tls=Tls(certificate=str(tmp_path / "gone.pem")))


@pytest.mark.parametrize("name", ENGINES)
def test_a_client_cannot_accept(name: str) -> None:
    engine = make_engine(name, server=False)
    with pytest.raises(CertificateError, match="cannot accept"):
        engine.accept(
            b"\xc0\x00\x00\x00\x01\x08" + bytes(1300),
            ADDRESS,
            original_destination=None,
            retry_source=None,
            now=0.0,
        )


@pytest.mark.parametrize("name", ENGINES)
def test_a_renewed_certificate_is_shown_to_new_connections(name: str, tmp_path: Path) -> None:
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    tls = Tls(certificate=str(paths[0]), private_key=str(paths[1]))
    made = [dev_certificate(["localhost"]) for _ in range(2)]

    def store(number: int) -> None:
        paths[0].write_bytes(made[number].certificate_pem)
        paths[1].write_bytes(made[number].key_pem)

    def connects(number: int) -> bool:
        pinned = Tls(pinned_sha256=frozenset({made[number].sha256}))
        link = Link(make_engine("aioquic", server=False, tls=pinned), engine)
        link.run(lambda: link.client.connected or link.client.closed)
        return link.client.connected

    store(0)
    engine = make_engine(name, server=True, tls=tls)
    assert connects(0)
    store(1)
    assert connects(0)  # not yet
    engine.reload_certificate()
    assert connects(1)
    assert not connects(0)
    paths[1].write_bytes(made[0].key_pem)
    with pytest.raises(CertificateError, match="does not belong"):
        engine.reload_certificate()
    assert connects(1)  # the old ones stay


@pytest.mark.parametrize("name", ENGINES)
def test_engines_have_the_name_of_the_option(name: str) -> None:
    assert make_engine(name, server=False).name == name


@pytest.mark.parametrize("name", ENGINES)
def test_without_a_name_the_address_must_be_in_the_certificate(name: str) -> None:
    link = Link(
        make_engine(name, server=False), make_engine("aioquic", server=True), server_name=None
    )
    link.run(lambda: link.client.closed)
    assert link.client.closed is not None
    assert "certificate was refused" in link.client.closed.reason


def test_without_a_name_a_server_learns_none() -> None:
    engine = make_engine("aioquic", server=False, tls=certificates().insecure)
    link = Link(engine, make_engine("aioquic", server=True), server_name=None)
    link.run(lambda: link.client.connected and link.server.connected)
    assert link.client.quic.server_name == link.server.quic.server_name == ""


# Bursts


def test_datagrams_for_several_addresses_are_several_bursts() -> None:
    one, other = ("192.0.2.1", 1), ("192.0.2.1", 2)
    assert bursts_of([]) == []
    assert bursts_of([(b"a", one), (b"b", one)]) == [Burst([b"a", b"b"], one)]
    mixed = [(b"a", one), (b"b", one), (b"c", other), (b"d", one)]
    assert bursts_of(mixed) == [Burst([b"a", b"b"], one), Burst([b"c"], other), Burst([b"d"], one)]


# What errors mean


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


@pytest.mark.parametrize("logger", [aioquic.quic.logger, qh3.quic.logger])
def test_a_trace_keeps_its_newest_events(logger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "MAX_EVENTS", 3)
    trace: Any = bounded_traces(logger.QuicLoggerTrace)(True, b"\x01")
    for number in range(5):
        trace.log_event(category="test", event=str(number), data={})
    assert [event["name"] for event in trace.to_dict()["events"]] == ["test:2", "test:3", "test:4"]
