"""The composition root: puts a relay together from its configuration, runs it, ends it.

::

    configuration -> certificate, keys -> planes -> QUIC server -> admin
                                             '-> events -> logs, telemetry, metrics
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from laps_relay.config import Loaded, RelayConfig, compare, mapping
from laps_relay.config.model import check_admin_token
from laps_relay.server.auth import TokenAuthorizer, auth_settings
from laps_relay.server.certificates import Certificate, obtain
from laps_relay.server.client_drain import ClientDrain
from laps_relay.server.edge_view import EdgeView
from laps_relay.server.identity import (
    StartError,
    key_ring,
    name_hasher,
    node_id_of,
    port_key,
    same_member,
)
from laps_relay.server.member import MemberHooks, NetworkMember
from laps_relay.server.monitor import RelayMonitor
from laps_relay.server.plans import read_plan_keys
from laps_relay.telemetry.logs import Logger, Names, set_level
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.mlog import MlogWriter, TracedRelay
from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.reports import PlaybackReports
from laps_sdk.edge.server import EdgeServer, EdgeServerConfig
from laps_sdk.errors import TransportError
from laps_sdk.forwarding.plane import Plane
from laps_sdk.peering.keys import PeerKeyRing
from laps_sdk.quic.engine import EngineOptions
from laps_wire.errors import LapsError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

if TYPE_CHECKING:
    from laps_relay.admin.server import AdminServer

__all__ = ["RelayApp", "admin_token"]

VERSION: Final = version("laps-relay")
_DAY: Final = 86_400.0


class RelayApp:
    """One relay: ``start``, ``run`` until asked to stop, ``stop``."""

    def __init__(
        self,
        loaded: Loaded,
        logger: Logger,
        *,
        reread: Callable[[], Loaded] | None = None,
        quic_socket: socket.socket | None = None,
        admin_socket: socket.socket | None = None,
        peer_socket: socket.socket | None = None,
        hidden: bool = False,
    ) -> None:
        """Build a relay; nothing is bound yet.

        ``reread`` loads the configuration again, for a reload. Given sockets are used instead of
        those of the configuration. ``hidden``: relays on other machines cannot dial this one.
        """
        self.loaded = loaded
        self.logger = logger
        self.reread = reread
        self._quic_socket = quic_socket
        self._admin_socket = admin_socket
        self._peer_socket = peer_socket
        self._hidden = hidden
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._changing: asyncio.Task[None] | None = None
        self._failure: LapsError | None = None
        self._admin: AdminServer | None = None
        self.metrics = Metrics()
        config = loaded.config
        observe = config.observe
        secret = observe.name_key
        keys = self._keys = key_ring(config) if config.network.active else None
        names = Names(
            None if secret is None else secret.get_secret_value().encode(),
            plain=observe.log_names == "plain",
            hasher=None if keys is None else name_hasher(keys),
        )
        if keys is not None:
            # The name under which others know us: records of both ends of a link are joined by it.
            config = same_member(config, node_id_of(config, keys), config.network.port)
        self.authorizer = TokenAuthorizer(auth_settings(config))
        self.certificate = obtain(config.tls, config.state_dir)
        self._plane = Plane(mapping.cache_limits(config), limits=mapping.plane_limits(config))
        self._mlog: MlogWriter | None = None
        self._playback = PlaybackReports(mapping.report_limits(config))
        self._relay = self._make_edge(config)
        # Workers share the port but not the node id, which their parent has set.
        port = f"clients {config.listen.client_port} {loaded.config.network.node_id or ''}"
        self.server = EdgeServer(
            server_config(config, self.certificate, port_key(config.state_dir, port)),
            self._relay,
            self._plane,
        )
        self.network: NetworkMember | None = None
        self.client_drain = ClientDrain(
            self.server,
            lambda: self.network,
            logger,
            lambda: self.loaded.config.listen.drain_timeout,
        )
        self.view = EdgeView(
            self.server,
            self.client_drain,
            self.authorizer,
            self.metrics,
            loaded,
            version=VERSION,
            before_metrics=lambda: self._monitor.sample(telemetry=False),
        )
        self._happened: list[RelayEvent] = []
        self._monitor = RelayMonitor(
            logger,
            names,
            self.metrics,
            telemetry_writer(config),
            self._mlog,
            server=self.server,
            view=self.view,
            network=lambda: self.network,
        )
        self._monitor.record(self._relay, self._plane, observe.delivery_sample, self._playback)
        self.server.joined = self._joined
        self._enter(config)

    def _enter(self, config: RelayConfig) -> None:
        """Make the relay's part in the network, if it has peers."""
        self.network = None
        if not config.network.active:
            return
        self._keys = self._keys or key_ring(config)
        if config.network.type == "stub":
            self.network = self._make_stub(config, self._keys)
        else:
            self.network = self._make_network(config, self._keys)
        self.view.node_id = str(self.network.relay.node_id)
        self._monitor.network_joined(self.network)

    def _make_stub(self, config: RelayConfig, keys: PeerKeyRing) -> NetworkMember:
        """Return the part of a Stub, which needs nothing of the network's core."""
        from laps_relay.server.stub_part import StubPart  # noqa: PLC0415 - by type

        return StubPart(
            config,
            keys,
            self.certificate,
            self.server,
            self._relay,
            self._plane,
            version=VERSION,
            hooks=self._hooks(),
            hidden=self._hidden,
        )

    def _make_network(self, config: RelayConfig, keys: PeerKeyRing) -> NetworkMember:
        """Return the part of every other type; a Stub's process does not import its core."""
        from laps_relay.server.network_part import NetworkPart  # noqa: PLC0415 - by type

        network = NetworkPart(
            config,
            keys,
            self.certificate,
            version=VERSION,
            hooks=self._hooks(),
            hidden=self._hidden,
        )
        if config.network.takes_clients:
            network.join(self.server, self._relay, self._plane, self.authorizer.peer_token)
        return network

    def _hooks(self) -> MemberHooks:
        return MemberHooks(
            observe=self._monitor.observe_network,
            applied=self._monitor.plan_applied,
            unsaved_keys=self._warn_unsaved_keys,
        )

    def _warn_unsaved_keys(self, reason: str) -> None:
        self.logger.warning(
            "keys of other nodes are not kept: after a restart whoever comes first has a node id",
            reason=reason,
            advice="set state_dir",
        )

    def _make_edge(self, config: RelayConfig) -> EdgeRelay:
        """Return the Edge's control plane, traced if ``observe.mlog_dir`` is set."""
        observe, settings = config.observe, mapping.edge_settings(config)
        if observe.mlog_dir is None:
            return EdgeRelay(self._plane, self.authorizer, settings, self._playback)
        self._mlog = mlog_writer(observe.mlog_dir, observe.trace_sample)
        traced = TracedRelay(self._plane, self.authorizer, settings, self._playback)
        traced.trace = self._mlog.session_event
        traced.trace_end = self._mlog.session_over
        return traced

    # Life

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        return self.view.url

    @property
    def admin_url(self) -> str | None:
        """The address of the admin; None if it is disabled."""
        return None if self._admin is None else self._admin.url

    async def start(self) -> None:
        """Bind all sockets and serve. Raises :class:`StartError` if that is not possible."""
        config = self.loaded.config
        try:
            self._monitor.start()
        except OSError as error:
            directory = config.observe.telemetry_dir
            raise StartError(
                f"telemetry directory {directory}: {error.strerror}; set observe.telemetry_dir"
            ) from None
        try:
            await self._start_servers(config)
        except BaseException:
            await self.stop()
            raise
        self.server.on_turn = self._turn
        self._show_certificate(self.certificate)
        self.metrics.info.labels(VERSION).set(1)
        self.metrics.start_seconds.set(time.time())
        self.metrics.ready.set_function(lambda: float(self.view.ready))
        self.view.taking_clients = True
        self._tasks = [
            asyncio.create_task(self._sample_for_ever(), name="laps-sampler"),
            asyncio.create_task(self._renew_for_ever(), name="laps-certificate"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)
        self.logger.info(
            "relay started",
            url=self.url,
            admin=self.admin_url,
            certificate_sha256=self.certificate.sha256,
            development_certificate=self.certificate.development,
            authorization=not self.authorizer.open,
        )

    async def _start_servers(self, config: RelayConfig) -> None:
        self.server.attach()
        await self._start_quic(config)
        if config.admin.enabled:
            self._admin = await self._start_admin(config)

    async def _start_admin(self, config: RelayConfig) -> AdminServer:
        """Bind the admin and let it answer. A relay without an admin does not import it."""
        from laps_relay.admin.app import make_app  # noqa: PLC0415 - only if it is enabled
        from laps_relay.admin.server import AdminServer, LiveFeed  # noqa: PLC0415

        admin, sock = config.admin, self._admin_socket
        token = admin_token(config)
        if token is None and sock is not None:
            _check_loopback(sock)
        feed = LiveFeed(self.view)
        app = make_app(
            self.view,
            token=token,
            page_limit=admin.page_limit,
            version=VERSION,
            feed=feed,
            network=lambda: self.network,
        )
        server = AdminServer(app, admin.host, admin.port, feed=feed, sock=sock)
        try:
            await server.start()
        except OSError as error:
            raise StartError(
                f"cannot listen on {admin.host} port {admin.port}/tcp for the admin:"
                # Some texts of the library repeat the address.
                f" {os.strerror(error.errno) if error.errno else error}; choose another one with"
                " --admin-port"
            ) from None
        return server

    async def _start_quic(self, config: RelayConfig) -> None:
        """Open the peer port, then the port for clients, which need the bridge to the network."""
        if self.network is not None:
            try:
                await self.network.start(_copy(self._peer_socket))
            except (OSError, TransportError) as error:
                raise StartError(f"{error}; choose another one with --peer-port") from None
            if self.network.lacks_contact:
                self.logger.warning(
                    "other relays are not told how to reach this one",
                    listens=self.network.contact,
                    advice="set network.contacts to host:port as others see it, or network.host",
                )
            self._show_proof(self.network)
            if self.network.epoch_fault is not None:
                self.logger.warning(
                    "the boot epoch is not kept: a restart after the clock went back is refused",
                    reason=self.network.epoch_fault,
                    advice="set state_dir",
                )
        try:
            if config.network.takes_clients:
                await self.server.start(_copy(self._quic_socket))
        except (OSError, TransportError) as error:
            raise StartError(f"{error}; choose another one with --host and --port") from None
        except ImportError:
            raise StartError(
                f"transport {config.listen.transport} is not installed:"
                ' pip install -e "packages/laps-relay[turbo]"'
            ) from None
        if self.network is not None and self.server.running:
            everywhere = self.server.address[0] in ("0.0.0.0", "::")  # noqa: S104 - compared
            self.network.takes_clients("" if everywhere else self.url)

    def _show_proof(self, network: NetworkMember) -> None:
        """Warn if other relays will refuse this one because they cannot verify its node id."""
        is_stub = network.relay_type is RelayType.STUB  # which has no node id for others
        node = NodeId(0) if is_stub else network.node_id
        flaw = None if self._keys is None or self._hidden else self._keys.own_flaw(node)
        if self._keys is not None and flaw is not None:
            self.logger.warning(
                "other relays will refuse this one",
                reason=flaw,
                node=str(node),
                key_sha256=self._keys.fingerprint.hex(),
                advice="have the authority of network.ca sign the key for this node id, and put"
                " node-cert.pem beside node-key.pem into the state directory, or set"
                " network.node_certificate; or let the others pin the key with network.pins",
            )

    async def run(self) -> None:
        """Wait for :meth:`request_stop`; raise what made the relay unable to continue."""
        await self._stopping.wait()
        if self._failure is not None:
            raise self._failure

    def request_stop(self) -> None:
        """End :meth:`run`; a second call ends the drain at once."""
        if self._stopping.is_set():
            self.client_drain.hurry()
        self._stopping.set()

    async def stop(self, *, drain: bool = False) -> None:
        """Close everything; with ``drain`` send GOAWAY to clients and wait for them first."""
        if drain and self.view.taking_clients:
            await self.client_drain.finish(self.loaded.config.listen.drain_timeout)
        self.view.taking_clients = False
        tasks = [*self._tasks, *([self._changing] if self._changing is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []
        # Clients first: what they published is withdrawn in good order.
        await self.server.stop()
        if self.network is not None:
            await self.network.stop()
            self._monitor.network_left()
        self._monitor.record_last()
        for sock in (self._quic_socket, self._peer_socket):
            if sock is not None:
                sock.close()
        if self._admin is not None:
            await self._admin.stop()
            self._admin = None
        await self._monitor.stop()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.logger.error("a part of the relay failed", part=task.get_name(), exc_info=error)

    # Reload

    def reload(self) -> bool:
        """Load the configuration and apply what can be applied; return False if it is refused."""
        if not self.view.taking_clients:
            self.logger.warning("reload refused, the relay is starting or stopping")
            return False
        if self._changing is not None and not self._changing.done():
            self.logger.warning("reload refused, the relay is changing its type")
            return False
        try:
            loaded = self.loaded if self.reread is None else self.reread()
            settings = auth_settings(loaded.config)
            certificate = obtain(loaded.config.tls, loaded.config.state_dir)
            admin_token(loaded.config)
            file = loaded.config.network.policy
            policy = None if self.network is None else self.network.read_policy(file)
            plan_keys = read_plan_keys(loaded.config.plan.keys)
        except LapsError as error:
            self.logger.warning("reload refused, the old configuration stays", reason=str(error))
            return False
        # Last of what can fail: from here on everything is applied.
        if not self._reload_certificate(certificate):
            return False
        old, config = self.loaded.config, loaded.config
        changes = compare(old, config)
        now = self.server.now
        self.authorizer.replace(settings)
        self._relay.set_settings(now, mapping.edge_settings(config))
        self._plane.set_cache_limits(now, mapping.cache_limits(config))
        self._relay.reauthorize(now)
        self.server.settle()
        if self.network is not None:
            self.network.set_policy(policy, file)
            self.network.trust_plans(plan_keys)
            self.network.load_plan(config.plan.file)
            if old.network.type == config.network.type:  # else it connects anew anyway
                self.network.set_peers(config)
        set_level(config.observe.log_level)
        self.loaded = self.view.loaded = loaded
        if old.network.type != config.network.type:
            self._changing = asyncio.create_task(self._change_type(old), name="laps-type")
            self._changing.add_done_callback(self._task_ended)
        self.logger.info(
            "reloaded",
            changed=[*changes.now, *changes.new_connections],
            needs_restart=list(changes.restart),
        )
        return True

    async def _change_type(self, old: RelayConfig) -> None:
        """Drain, leave the network, and come back as another type.

        Node id and peer port stay, so that peers which dial this relay find it again. The epoch is
        higher, so that peers drop everything that it advertised before.
        """
        config = self.loaded.config
        kind = config.network.type
        self.logger.info("changing the type", old=old.network.type, new=kind)
        await self.client_drain.finish(config.listen.drain_timeout)
        await self.server.stop()
        network = self.network
        if network is not None:
            config = same_member(config, network.node_id, network.server.address[1])
            await network.stop()
        self._monitor.record_last()
        try:
            self._relay.resume()
            self._enter(config)
            await self._start_quic(config)
        except LapsError as error:
            self._failure = error
            self.request_stop()
            return
        self.client_drain.reset()
        self._monitor.type_changed(old.network.type, kind)

    def _reload_certificate(self, certificate: Certificate) -> bool:
        if certificate.tls != self.certificate.tls:
            # The endpoint reads the paths that it was made with.
            self.logger.warning("other certificate paths need a restart")
            return True
        try:
            if self.server.running:
                self.server.reload_certificate()
            if self.network is not None:
                self.network.server.reload_certificate()
        except LapsError as error:
            self.logger.warning("certificate refused, the old one stays", reason=str(error))
            return False
        self._show_certificate(certificate)
        return True

    def _show_certificate(self, certificate: Certificate) -> None:
        if certificate.exposed:
            self.logger.warning(
                "everybody may read the private key",
                file=certificate.tls.private_key or certificate.tls.certificate,
                advice="chmod o-r",
            )
        self.certificate = self.view.certificate = certificate
        self.metrics.certificate_seconds.set(certificate.not_after.timestamp())

    # What goes on beside

    def _joined(self, now: float) -> None:
        """Pass events of a part of a turn to the network, and keep them for observers."""
        events = self._relay.poll_events()
        self._happened += events
        if self.network is not None:
            self.network.joined(now, events)

    def _turn(self, now: float) -> None:
        if not self.server.ports:
            self.client_drain.clients_left()
        events, self._happened = [*self._happened, *self._relay.poll_events()], []
        if events:
            self._monitor.turn(now, events)

    async def _sample_for_ever(self) -> None:
        while True:
            interval = self.loaded.config.observe.sample_interval
            await asyncio.sleep(interval)
            await self._monitor.write_records(interval)

    async def _renew_for_ever(self) -> None:
        """Renew the development certificate, which is valid for some days only."""
        while True:
            await asyncio.sleep(_DAY)
            self._renew()

    def _renew(self) -> None:
        if not self.certificate.development:
            return
        config = self.loaded.config
        try:
            self._reload_certificate(obtain(config.tls, config.state_dir))
        except LapsError as error:
            self.logger.warning("no new development certificate", reason=str(error))


def _copy(sock: socket.socket | None) -> socket.socket | None:
    """Return a duplicate: endpoints close their sockets, and a given one is used again."""
    return None if sock is None else sock.dup()


def _check_loopback(sock: socket.socket) -> None:
    """Raise :class:`StartError` if a socket that was handed over is not on loopback."""
    host = str(sock.getsockname()[0])
    if not ip_address(host).is_loopback:
        raise StartError(
            f"the admin's socket was opened on {host}, which is not loopback, so a token is"
            " needed: set admin.token_file"
        )


def server_config(
    config: RelayConfig, certificate: Certificate, reset_key: bytes
) -> EdgeServerConfig:
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
            reset_key=reset_key,
        ),
        egress=mapping.egress_limits(config),
        admission=mapping.admission_limits(config),
        setup_timeout=listen.setup_timeout,
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
