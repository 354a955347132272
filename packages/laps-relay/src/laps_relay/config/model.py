"""The configuration of a relay as a tree of models; unknown keys are errors.

Models of the section ``limits`` have every cap, rate and wait, under the names that the code uses:
each has the fields and defaults of one dataclass of the core or the transport. A test compares
them. The section ``network`` is in :mod:`laps_relay.config.network`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from laps_relay.config.fields import (
    LOOPBACK,
    Duration,
    FilePath,
    MisfitError,
    Numbers,
    Paths,
    Section,
    Size,
    Words,
    key,
    words,
)
from laps_relay.config.network import Network
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.tokens import parse_scope
from laps_wire.names import Namespace

__all__ = [
    "Admin",
    "Admission",
    "Auth",
    "Cache",
    "Connection",
    "Egress",
    "Limits",
    "Listen",
    "Observe",
    "PlanFiles",
    "Plane",
    "PlayerReports",
    "RelayConfig",
    "TlsFiles",
    "check_admin_token",
    "default_state_dir",
]


class Cache(Section):
    """What the cache holds for late joiners and FETCH; the first limit that is reached evicts."""

    max_bytes: Size = key("64MiB", "Bytes of all tracks together.", "at-once")
    max_track_bytes: Size = key("8MiB", "Bytes of one track.", "at-once")
    max_groups: int = key(1024, "Groups of one track.", "at-once", ge=1)
    max_age: Duration = key("1m", "Longest time that an object is cached.", "at-once")
    max_objects: int = key(65536, "Objects of one track.", "at-once", ge=1)


class Connection(Section):
    """Flow control windows that a connection gives its client."""

    max_streams_bidi: int = key(128, "Bidirectional streams open at a time.", ge=1)
    max_streams_uni: int = key(1024, "Unidirectional streams open at a time.", ge=1)
    max_data: Size = key("16MiB", "Bytes that the client may have in flight on all streams.")
    max_stream_data: Size = key("4MiB", "Bytes that the client may have in flight on one stream.")
    idle_timeout: Duration = key(
        "30s", "How long a connection lives without a packet; the client's own may be shorter."
    )
    keepalive: Duration = key(
        "10s",
        "A client that sends nothing for so long gets a PING, at the latest after a third of"
        " dead_after and of idle_timeout; 0: never.",
    )
    dead_after: Duration = key(
        "10s",
        "A client that leaves PINGs unanswered for so long is gone; 0: only the idle timeout"
        " counts.",
    )
    max_datagram_frame: int = key(16383, "Longest DATAGRAM frame that is accepted.", ge=0)


class Egress(Section):
    """How much data waits for a client that is slower than its tracks."""

    max_bytes: Size = key(
        "4MiB", "Bytes queued on data streams; above it the least urgent stream is dropped."
    )
    max_control_bytes: Size = key(
        "1MiB", "Bytes queued on control streams; above it the connection ends."
    )
    high_water: Size = key("512KiB", "Queued bytes above which a connection is congested.")
    low_water: Size = key("128KiB", "Queued bytes at which a connection is no longer congested.")
    max_waiting_streams: int = key(1024, "Streams that wait for the client's permission.", ge=1)
    max_datagrams: int = key(512, "Datagrams queued; the oldest is dropped first.", ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_water > self.high_water:
            raise MisfitError("low_water", "low_water is above high_water")
        return self


class Admission(Section):
    """Which clients get a connection."""

    max_connections: int = key(10_000, "Connections in all, half-open ones included.", ge=1)
    max_half_open: int = key(1024, "Handshakes under way.", ge=1)
    retry_above: int = key(64, "Half-open handshakes above which clients get a Retry.", ge=0)
    handshake_timeout: Duration = key("10s", "How long a handshake may take.")
    prefix_rate: float = key(
        200.0, "New connections per second from one prefix (IPv4 /24, IPv6 /56).", gt=0
    )
    prefix_burst: int = key(2000, "New connections at once from one prefix.", ge=1)
    max_prefixes: int = key(4096, "Prefixes whose rate is tracked.", ge=1)
    token_lifetime: Duration = key("15s", "How long the token of a Retry is valid.")


class Plane(Section):
    """How much state of the forwarding plane a peer can cause."""

    pending_streams: int = key(256, "Streams of a session that wait for their alias.", ge=0)
    pending_bytes: Size = key(
        "1MiB", "Bytes of streams and datagrams of a session that wait for their alias."
    )
    pending_time: Duration = key("3s", "How long streams and datagrams wait for their alias.")
    group_records: int = key(1024, "Groups of a track whose object ids are remembered.", ge=1)
    id_ranges: int = key(1024, "Ranges of ids remembered for one group.", ge=1)
    finished_streams: int = key(512, "Finished streams of a session remembered.", ge=0)
    fetch_window: Size = key("256KiB", "Bytes of a fetch answer that wait to be sent.")
    fetch_interval: Duration = key("5ms", "Between two looks whether an answer can go on.")
    linger: Duration = key("5s", "Until an abandoned subgroup's cached part is reset.")
    continued_time: Duration = key(
        "10s",
        "A subgroup whose stream was cut waits so long for the one that goes on with it, and that "
        "one for the beginning; as long again while something of older groups comes.",
    )
    continued_limit: Duration = key("30s", "How long either waits in all.")
    lagging_streams: int = key(
        8,
        "Streams of a subscription that may be behind at a time; the rest waits in the log.",
        ge=1,
    )
    spans: int = key(256, "Stretches of a subgroup with holes between them.", ge=1)


class Limits(Section):
    """What clients may request, each of them and all together."""

    linger: Duration = key(
        "5s", "How long an upstream subscription outlives its last subscriber.", "at-once"
    )
    rendezvous_wait: Duration = key(
        "1s", "How long a SUBSCRIBE of draft 16 waits for a publisher.", "at-once"
    )
    max_rendezvous: Duration = key(
        "1m", "Longest wait for a publisher that a SUBSCRIBE of draft 18 may request.", "at-once"
    )
    upstream_timeout: Duration = key(
        "10s", "How long the relay waits for a publisher's answer.", "at-once"
    )
    done_delay: Duration = key(
        "250ms", "How long streams may still arrive after PUBLISH_DONE.", "at-once"
    )
    publisher_grace: Duration = key(
        "30s",
        "How long subscribers of a track are kept after its publisher was lost.",
        "at-once",
    )
    cache_linger: Duration = key(
        "30s", "How long the cache answers for a track without a publisher.", "at-once"
    )
    goaway_timeout: Duration = key("10s", "How long a session may stay after GOAWAY.", "at-once")
    longest_match: bool = key(
        False, "Ask only the publishers of the longest matching namespace.", "at-once"
    )
    forward_unwatched: bool = key(
        True,
        "Accept PUBLISH with Forward State 1 without subscribers, to fill the cache.",
        "at-once",
    )
    session_subscriptions: int = key(1024, "Subscriptions of a session.", "at-once", ge=0)
    session_publishes: int = key(1024, "Tracks that a session publishes.", "at-once", ge=0)
    session_namespaces: int = key(1024, "Namespaces that a session publishes.", "at-once", ge=0)
    session_prefixes: int = key(64, "Namespace subscriptions of a session.", "at-once", ge=0)
    session_fetches: int = key(64, "Fetches of a session at a time.", "at-once", ge=0)
    session_offers: int = key(
        1024, "Tracks that the relay publishes to a session.", "at-once", ge=0
    )
    session_blocked: int = key(
        1024, "Requests of the relay that wait for a session.", "at-once", ge=0
    )
    name_bytes: int = key(
        4096, "Bytes of a full track name, a namespace or a prefix.", "at-once", ge=1, le=4096
    )
    max_sessions: int = key(10_000, "Sessions in all.", "at-once", ge=1)
    max_tracks: int = key(100_000, "Tracks in all.", "at-once", ge=1)
    max_subscriptions: int = key(1_000_000, "Subscriptions in all.", "at-once", ge=1)
    max_namespaces: int = key(100_000, "Namespaces in all.", "at-once", ge=1)
    max_enumerated: int = key(
        10_000, "Matches of one prefix when it is subscribed to.", "at-once", ge=1
    )
    request_rate: float = key(1000.0, "Requests of a session per second.", "at-once", gt=0)
    request_burst: int = key(2000, "Requests of a session at once.", "at-once", ge=1)
    top_n_max: int = key(1000, "The largest N of a Top-N subscription.", "at-once", ge=1)
    top_n_margin: int = key(0, "A track displaces another only by more than this.", "at-once", ge=0)
    connection: Connection = Connection()
    egress: Egress = Egress()
    admission: Admission = Admission()
    plane: Plane = Plane()


def _scope(text: str) -> str:
    parse_scope(text)
    return text


def _draft(text: str) -> str:
    if text not in DRAFTS:
        raise ValueError(f"{text!a} is not spoken here; known: {', '.join(DRAFTS)}")
    return text


def _different(items: list[str]) -> list[str]:
    if not items or len(set(items)) != len(items):
        raise ValueError("one or more, each of them once")
    return items


def default_state_dir() -> Path:
    """Return the state directory of this user; clients of the same user look there too."""
    return Path(os.environ.get("HOME", "/")) / ".local" / "state" / "laps"


class Listen(Section):
    """Where clients connect."""

    host: str = key("127.0.0.1", "Address to bind; 0.0.0.0 or :: for every interface.")
    client_port: int = key(33435, "UDP port for clients; 0: any free one.", ge=0, le=65535)
    transport: Literal["aioquic", "aioquic-stock", "qh3"] = key(
        "aioquic", "QUIC library; aioquic-stock: without the fast path; qh3: extra 'turbo'."
    )
    drafts: Annotated[
        list[Annotated[str, AfterValidator(_draft)]],
        BeforeValidator(words),
        AfterValidator(_different),
    ] = key(["moqt-18", "moqt-16"], "ALPNs of MoQT, the preferred one first.")
    datagram_size: int = key(
        1452, "Largest UDP payload to use where the path allows it.", ge=1200, le=65507
    )
    setup_timeout: Duration = key("10s", "How long a client may take to send its SETUP.")
    drain_timeout: Duration = key(
        "10s",
        "How long a stop waits for clients to leave and for peers to get all data.",
        "at-once",
    )


class TlsFiles(Section):
    """The certificate; without one the relay makes a development certificate."""

    certificate: FilePath | None = key(None, "PEM file: leaf, then chain. A reload reads it again.")
    private_key: FilePath | None = key(
        None, "PEM file; may be left out if the certificate's file holds it."
    )
    dev_names: Words = key(
        ["localhost", "127.0.0.1", "::1"], "Names in a development certificate.", "new-connections"
    )

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.private_key is not None and self.certificate is None:
            raise MisfitError("private_key", "private_key without certificate: set both")
        return self


def check_admin_token(text: str) -> None:
    """Raise ``ValueError`` for a bearer token that is too short, or that no header can carry."""
    if len(text) < 16:
        raise ValueError("token is shorter than 16 characters; make one: openssl rand -hex 32")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("token is not of printable ASCII without spaces: no header can carry it")


class Admin(Section):
    """The HTTP pages and API for operators."""

    enabled: bool = key(True, "Whether the relay serves the admin.")
    host: str = key("127.0.0.1", "Address to bind; others than loopback need a token.")
    port: int = key(33480, "TCP port; 0: any free one.", ge=0, le=65535)
    token: SecretStr | None = key(
        None, "Bearer token that every request must carry, /healthz excepted.", secret=True
    )
    token_file: FilePath | None = key(None, "File that holds the token, instead of 'token'.")
    page_limit: int = key(1000, "Largest number of rows in one answer.", ge=1, le=10_000)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.token is not None and self.token_file is not None:
            raise MisfitError("token_file", "token and token_file: set one of them")
        if self.token is not None:
            try:
                check_admin_token(self.token.get_secret_value())
            except ValueError as error:
                raise MisfitError("token", str(error)) from None
        if self.enabled and not self.is_loopback and self.token is None and self.token_file is None:
            raise MisfitError(
                "host", "it is not loopback, so a token is needed: set admin.token_file"
            )
        return self


class Auth(Section):
    """Authorization by CAT tokens. Without keys everything is allowed."""

    keys: Paths = key([], "Key files (JWK); with any, a request needs a valid token.", "at-once")
    audience: Words = key(
        [], "Names of this relay in tokens; tokens for other audiences are refused.", "at-once"
    )
    issuers: Words = key(
        [], "Issuers whose tokens are accepted; none: every holder of a key.", "at-once"
    )
    anonymous: Annotated[list[Annotated[str, BeforeValidator(_scope)]], BeforeValidator(words)] = (
        key([], "Scopes that need no token, e.g. 'sub:public/*'.", "at-once")
    )
    guests: Annotated[list[Annotated[str, BeforeValidator(_scope)]], BeforeValidator(words)] = key(
        [],
        "Scopes of Stubs and C++ relays that peer with this Edge: they proved themselves as peers,"
        " look at the tokens of their own clients, and pass none on.",
        "at-once",
    )
    token_types: Numbers = key([1], "MoQT token types that are read as CAT.", "at-once")
    setup_required: bool = key(False, "Whether SETUP itself needs a token.", "at-once")
    require_expiry: bool = key(True, "Refuse tokens without an expiry time.", "at-once")
    leeway: Duration = key(
        "5s", "Largest difference between the clocks of issuer and relay.", "at-once"
    )
    max_tokens: int = key(
        4, "Largest number of tokens of one request that are checked.", "at-once", ge=1
    )
    cached_tokens: int = key(4096, "Tokens whose signature check is cached.", "at-once", ge=1)

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        meant = ("audience", "issuers", "anonymous", "guests", "setup_required")
        found = [name for name in meant if getattr(self, name)]
        if found and not self.keys:
            raise MisfitError(
                found[0],
                f"{', '.join(found)} without keys: everything would be allowed; set auth.keys",
            )
        return self


def _namespace(text: str) -> str:
    if not Namespace.parse(text).fields:
        raise ValueError("a namespace of one field or more, such as laps-reports")
    return text


class PlayerReports(Section):
    """Reports of players on their playback, which become telemetry."""

    enabled: bool = key(
        False, "Whether reports of players are accepted. If not, their namespace is refused."
    )
    namespace: Annotated[str, AfterValidator(_namespace)] = key(
        "laps-reports", "Namespace of reports; no other track can be there."
    )
    rate: float = key(1.0, "Report objects of a session per second; more are refused.", gt=0)
    burst: int = key(20, "Report objects of a session at once.", ge=1)
    object_bytes: Size = key(
        "4KiB", "Bytes of one report object; longer ones are refused.", ge=64, le=4096
    )


class Observe(Section):
    """Logs, telemetry and traces."""

    log_level: Literal["debug", "info", "warning", "error"] = key(
        "info", "Lowest level that is logged.", "at-once"
    )
    log_format: Literal["auto", "json", "console"] = key(
        "auto", "auto: console on a terminal, JSON lines elsewhere."
    )
    log_names: Literal["hashed", "plain"] = key(
        "hashed", "How tracks and namespaces appear in logs."
    )
    name_key: SecretStr | None = key(
        None,
        "Key of the hashes that stand for names; the same on all relays makes them comparable."
        " None: a random one for each start. In a network, telemetry has the network's hashes.",
        secret=True,
    )
    telemetry_dir: FilePath | None = key(None, "Directory for telemetry files; none: no telemetry.")
    telemetry_file_bytes: Size = key("64MiB", "Size at which a file is closed.", ge=1024)
    telemetry_file_age: Duration = key("5m", "Age at which a file is closed.", gt=0)
    telemetry_queue: int = key(10_000, "Records that may wait for the disk; more are lost.", ge=1)
    sample_interval: Duration = key("10s", "Interval between two samples of counters.", gt=0)
    delivery_sample: int = key(
        100,
        "Telemetry has times of the first object of each stream of one group in so many; all"
        " relays choose the same. 0: of none.",
        ge=0,
    )
    reports: PlayerReports = PlayerReports()
    qlog_dir: FilePath | None = key(None, "Directory for qlog files of connections.")
    mlog_dir: FilePath | None = key(None, "Directory for mlog files of MoQT sessions.")
    trace_sample: float = key(1.0, "Share of connections that get qlog and mlog.", ge=0, le=1)

    @model_validator(mode="after")
    def _kept(self) -> Self:
        if self.reports.enabled and self.telemetry_dir is None:
            raise MisfitError(
                "reports.enabled", "nobody would read the reports: set observe.telemetry_dir"
            )
        return self


class PlanFiles(Section):
    """A signed plan of Vias, such as laps-analytics makes."""

    file: FilePath | None = key(
        None, "Plan file; a reload reads it again. The admin accepts plans, too.", "at-once"
    )
    keys: Paths = key(
        [], "PEM files: public Ed25519 keys whose plans are followed; none: no plans.", "at-once"
    )

    @model_validator(mode="after")
    def _trusted(self) -> Self:
        if self.file is not None and not self.keys:
            raise MisfitError("file", "nobody's plan would be followed: set plan.keys")
        return self


class RelayConfig(Section):
    """The whole configuration."""

    state_dir: FilePath = Field(
        default_factory=default_state_dir,
        description="Directory for keys, certificates and other state of the relay.",
        json_schema_extra={"lifecycle": "static"},
    )
    listen: Listen = Listen()
    tls: TlsFiles = TlsFiles()
    admin: Admin = Admin()
    auth: Auth = Auth()
    cache: Cache = Cache()
    limits: Limits = Limits()
    network: Network = Network()
    plan: PlanFiles = PlanFiles()
    observe: Observe = Observe()

    @model_validator(mode="after")
    def _has_ways(self) -> Self:
        if self.plan.file is not None and not self.network.active:
            raise MisfitError(
                "plan.file",
                "a relay that stands alone has no ways to plan: set network.enabled, or give"
                " --peer-port",
            )
        return self
