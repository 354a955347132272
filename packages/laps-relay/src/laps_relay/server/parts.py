"""Settings and writers of a relay, made from its configuration; the error of a failed start."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from laps_relay.config import RelayConfig, mapping
from laps_relay.config.model import check_admin_token
from laps_relay.server.auth import AuthSettings, read_keys
from laps_relay.server.certificates import Certificate
from laps_relay.telemetry.mlog import MlogWriter
from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_sdk.edge.server import EdgeServerConfig
from laps_sdk.peering.server import PEER_ALPNS, PeerServerConfig
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.tokens import Expectations, parse_scope
from laps_wire.errors import LocalError
from laps_wire.peering.session import LAPS2

__all__ = [
    "StartError",
    "admin_token",
    "auth_settings",
    "mlog_writer",
    "peer_server_config",
    "server_config",
    "telemetry_writer",
]


class StartError(LocalError, RuntimeError):
    """The relay cannot start; the text says what to change."""


def auth_settings(config: RelayConfig) -> AuthSettings:
    """Return how tokens are checked; reads the key files."""
    auth = config.auth
    return AuthSettings(
        keys=read_keys(auth.keys),
        expected=Expectations(
            audiences=tuple(auth.audience),
            issuers=tuple(auth.issuers),
            leeway=auth.leeway,
            require_expiry=auth.require_expiry,
        ),
        anonymous=tuple(parse_scope(text) for text in auth.anonymous),
        foreign_peers=tuple(parse_scope(text) for text in auth.guests),
        token_types=frozenset(auth.token_types),
        setup_required=auth.setup_required,
        max_tokens=auth.max_tokens,
        cached_tokens=auth.cached_tokens,
    )


def server_config(config: RelayConfig, certificate: Certificate) -> EdgeServerConfig:
    """Return the settings of the server for clients."""
    listen, observe = config.listen, config.observe
    return EdgeServerConfig(
        host=listen.host,
        port=listen.client_port,
        backend=listen.transport,
        drafts=tuple(listen.drafts),
        engine=EngineOptions(
            tls=certificate.tls,
            limits=mapping.connection_limits(config),
            datagram_size=listen.datagram_size,
            qlog_dir=None if observe.qlog_dir is None else str(observe.qlog_dir),
            qlog_sample=observe.trace_sample,
        ),
        egress=mapping.egress_limits(config),
        admission=mapping.admission_limits(config),
        setup_timeout=listen.setup_timeout,
    )


def peer_server_config(config: RelayConfig, certificate: Certificate) -> PeerServerConfig:
    """Return the settings of the peer port."""
    network = config.network
    return PeerServerConfig(
        host=network.host or config.listen.host,
        port=network.port,
        backend=config.listen.transport,
        alpns=PEER_ALPNS if network.cpp_peers else (LAPS2.alpn,),
        engine=EngineOptions(
            # Who is there is proved in the session, over the key of this certificate.
            tls=replace(certificate.tls, verify=False),
            datagram_size=config.listen.datagram_size,
        ),
        admission=mapping.admission_limits(config),
    )


def admin_token(config: RelayConfig) -> str | None:
    """Return the admin's token, from the configuration or its file; None: there is none."""
    admin = config.admin
    if admin.token is not None:
        return admin.token.get_secret_value()
    if admin.token_file is None:
        return None
    try:
        text = admin.token_file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise StartError(f"admin.token_file {admin.token_file}: is not ASCII") from None
    except OSError as error:
        raise StartError(
            f"admin.token_file {admin.token_file}: cannot be read: {error.strerror}"
        ) from None
    try:
        check_admin_token(text)
    except ValueError as error:
        raise StartError(f"admin.token_file {admin.token_file}: {error}") from None
    return text


def mlog_writer(directory: Path, sample: float) -> MlogWriter:
    """Return the writer of session traces. Raises :class:`StartError`."""
    try:
        return MlogWriter(directory, sample, boot=int(time.time()))
    except OSError as error:
        raise StartError(
            f"mlog directory {directory}: {error.strerror}; set observe.mlog_dir"
        ) from None


def telemetry_writer(config: RelayConfig) -> TelemetryWriter | None:
    """Return the writer of telemetry; None if no directory is configured."""
    observe = config.observe
    if observe.telemetry_dir is None:
        return None
    return TelemetryWriter(
        TelemetrySettings(
            directory=observe.telemetry_dir,
            relay=config.network.node_id or "0:1",
            boot=int(time.time()),
            region=config.network.region,
            file_bytes=observe.telemetry_file_bytes,
            file_age=observe.telemetry_file_age,
            queue=observe.telemetry_queue,
        )
    )
