"""The configuration of a relay as a tree of models; unknown keys are errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from laps_relay.config.base import MisfitError, Section, key
from laps_relay.config.fields import LOOPBACK, FilePath, Numbers, Paths, Words, words
from laps_relay.config.limits import Cache, Limits
from laps_relay.config.network import Network
from laps_relay.config.units import Duration, Size
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.tokens import parse_scope
from laps_wire.names import Namespace

__all__ = [
    "Admin",
    "Auth",
    "Listen",
    "Observe",
    "PlanFiles",
    "PlayerReports",
    "RelayConfig",
    "TlsFiles",
    "check_admin_token",
    "default_state_dir",
]


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
