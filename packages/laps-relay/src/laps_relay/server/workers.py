"""A relay of several processes: Edges on one port, peered with each other over loopback.

::

    clients --UDP--> kernel: by addresses and ports --> socket 0 --> worker 0 --peers--> network
                                                    '-> socket 1 --> worker 1
                                                    '-> socket 2 --> worker 2
                                         worker 0 <-> worker 1 <-> worker 2 <-> worker 0

Each worker is a relay with a node id of its own. Only the first one has the peer port that other
relays know, and the admin.

The parent opens all sockets (SO_REUSEPORT) and hands them over. It keeps them open while a worker
is replaced: if one were closed, the kernel would give connections to workers that do not know them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from laps_relay.config import RelayConfig
from laps_relay.server.certificates import Certificate, obtain
from laps_relay.server.identity import StartError, key_ring, node_id_of, worker_node_id
from laps_relay.telemetry.logs import Logger
from laps_sdk.peering.settings import show_contact
from laps_sdk.quic.udp import bind_udp

__all__ = ["Worker", "Workers"]

_LOOPBACK: Final = "127.0.0.1"
_FLAG: Final = "--as-worker"
_SHORTEST: Final = 0.5
_LONGEST: Final = 30.0
"""Longest wait in seconds before a worker is started again; each wait is twice the last."""
_STEADY: Final = 60.0
"""A worker that lived for so many seconds is started again after the shortest wait."""
_GRACE: Final = 15.0
"""Seconds beyond the drain after which a worker that does not end is killed."""
_OURS: Final = ("NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
"""Environment variables that systemd sets for the parent only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What the parent passes to one worker."""

    index: int
    node_id: str
    client_port: int
    client_fd: int
    peer_fd: int
    admin_fd: int | None = None
    siblings: list[str] = field(default_factory=list)
    """Contacts of the workers that this one dials; the others dial it."""
    local: bool = True
    """Whether the whole relay peers on this machine only."""

    def dump(self) -> str:
        """Return the worker as JSON for the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the worker that :meth:`dump` wrote. Raises :class:`StartError`."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            raise StartError(f"{_FLAG} is for workers that 'serve --workers' starts") from None

    @property
    def fds(self) -> list[int]:
        """The sockets to inherit."""
        return [fd for fd in (self.client_fd, self.peer_fd, self.admin_fd) if fd is not None]

    def flags(self, config: RelayConfig) -> dict[str, tuple[str, object]]:
        """Return the keys of the configuration in which this worker differs from the others."""
        different: dict[str, object] = {
            "network.enabled": True,
            "network.node_id": self.node_id,
            "listen.client_port": self.client_port,
        }
        if self.index or not config.network.meets_others:
            different |= {"network.host": _LOOPBACK, "network.port": 0, "network.contacts": []}
        if self.index:
            different |= {"network.peers": self.siblings, "admin.enabled": False}
            # Its loopback socket reaches no other machine: the first worker peers for all.
            different |= {} if self.local else {"network.dynamic": False}
            # A C++ network has one way into ours, or it would get everything several times.
            different |= {"network.cpp_peers": [], "network.cpp_contacts": []}
        if config.observe.mlog_dir is not None:
            # Files are named by sessions, and each worker counts its own.
            different["observe.mlog_dir"] = config.observe.mlog_dir / f"worker-{self.index}"
        return {key: (_FLAG, value) for key, value in different.items()}


class _Seat:
    """The sockets of a worker, and the process that has them now."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.process: Process | None = None
        self.facts: Mapping[str, Any] = {}
        self.status = 0


class Workers:
    """The parent process: starts workers, replaces those that die, and passes signals on."""

    def __init__(
        self,
        config: RelayConfig,
        logger: Logger,
        command: Callable[[Worker], Sequence[str]],
        *,
        admin_socket: socket.socket | None = None,
        shortest: float = _SHORTEST,
    ) -> None:
        """``command`` returns the command line of a worker."""
        self._config = config
        self._logger = logger
        self._command = command
        self._shortest = shortest
        self._stopping = asyncio.Event()
        self._sockets: list[socket.socket] = [] if admin_socket is None else [admin_socket]
        self._admin_socket = admin_socket
        self._seats: list[_Seat] = []
        self.certificate: Certificate = obtain(config.tls, config.state_dir)
        """Made once by the parent: workers that start together must not each make their own."""

    async def start(self) -> dict[str, Any]:
        """Start all workers; return the facts of the first, and those of each in ``workers``."""
        try:
            self._open()
            started = await asyncio.gather(*map(self._begin, self._seats), return_exceptions=True)
            for error in started:
                if isinstance(error, BaseException):
                    raise error
        except BaseException:
            self.request_stop()
            await asyncio.gather(*map(self._end, self._seats))
            self._close()
            raise
        told = ("pid", "node", "peers")
        return {
            **self._seats[0].facts,
            "pid": os.getpid(),
            "workers": [{key: seat.facts.get(key) for key in told} for seat in self._seats],
        }

    async def run(self) -> int:
        """Wait until all have ended after :meth:`request_stop`; return the worst exit status."""
        try:
            await asyncio.gather(*map(self._watch, self._seats))
        finally:
            self._close()
        return max(seat.status for seat in self._seats)

    def request_stop(self) -> None:
        """Drain all workers and end them; a second call ends them at once."""
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def reload(self) -> None:
        """Let all workers reload their configuration."""
        self._signal(signal.SIGHUP)

    # Sockets

    def _open(self) -> None:
        config = self._config
        listen, network = config.listen, config.network
        first_id = node_id_of(config, key_ring(config))
        local = not network.meets_others or network.is_loopback(listen.host)
        if listen.client_port:
            # Another relay's port could be shared by mistake: this one may not.
            bind_udp(listen.host, listen.client_port).close()
        port = listen.client_port
        contacts: list[str] = []
        for index in range(network.workers):
            client = self._keep(bind_udp(listen.host, port, reuse_port=True))
            port = client.getsockname()[1]
            if index or not network.meets_others:
                peer = self._keep(bind_udp(_LOOPBACK, 0))
            else:
                peer = self._keep(bind_udp(network.host or listen.host, network.port))
            admin = self._admin_socket if index == 0 else None
            worker = Worker(
                index=index,
                node_id=str(worker_node_id(first_id, index)),
                client_port=port,
                client_fd=client.fileno(),
                peer_fd=peer.fileno(),
                admin_fd=None if admin is None else admin.fileno(),
                siblings=list(contacts),
                local=local,
            )
            contacts.append(_dialled(peer))
            self._seats.append(_Seat(worker))

    def _keep(self, sock: socket.socket) -> socket.socket:
        self._sockets.append(sock)
        return sock

    def _close(self) -> None:
        for sock in self._sockets:
            sock.close()

    # Processes

    async def _begin(self, seat: _Seat) -> None:
        """Start one worker and wait until it serves. Raises :class:`StartError`."""
        environment = {key: value for key, value in os.environ.items() if key not in _OURS}
        process = seat.process = await asyncio.create_subprocess_exec(
            *self._command(seat.worker),
            # A worker reads the end of it when the parent is gone.
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=seat.worker.fds,
            env=environment,
            # Ctrl-C is for the parent, which passes it on once.
            process_group=0,
        )
        line = b"" if process.stdout is None else await process.stdout.readline()
        try:
            seat.facts = json.loads(line)
        except ValueError:
            await self._end(seat)
            raise StartError(
                f"worker {seat.worker.index} did not start (status {seat.status})"
            ) from None

    async def _end(self, seat: _Seat) -> None:
        """Wait for the end of a worker; kill it if it takes too long after :meth:`request_stop`."""
        process = seat.process
        if process is None:
            return
        waiting = asyncio.ensure_future(process.communicate())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not waiting.done():
            await asyncio.wait((waiting,), timeout=self._config.listen.drain_timeout + _GRACE)
        if not waiting.done():
            self._logger.error("worker does not end, it is killed", worker=seat.worker.index)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await waiting
        seat.status = _status(process.returncode, stopping=self._stopping.is_set())

    async def _watch(self, seat: _Seat) -> None:
        """Replace a worker whenever it dies, until :meth:`request_stop`."""
        loop = asyncio.get_running_loop()
        wait = self._shortest
        while True:
            since = loop.time()
            await self._end(seat)
            if self._stopping.is_set():
                return
            if loop.time() - since >= _STEADY:
                wait = self._shortest
            while True:
                self._logger.error(
                    "worker ended",
                    worker=seat.worker.index,
                    status=seat.status,
                    again_in=wait,
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._stopping.wait()
                        return
                wait = min(2 * wait, _LONGEST)
                try:
                    await self._begin(seat)
                except StartError:
                    if self._stopping.is_set():
                        return
                    continue
                break
            self._logger.info("worker started again", worker=seat.worker.index, **_who(seat))

    def _signal(self, number: signal.Signals) -> None:
        for seat in self._seats:
            if seat.process is not None and seat.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    seat.process.send_signal(number)


def _who(seat: _Seat) -> dict[str, Any]:
    return {"pid": seat.facts.get("pid"), "node": seat.facts.get("node")}


def _dialled(peer: socket.socket) -> str:
    """Return the contact at which other workers reach a peer port."""
    host, port = peer.getsockname()[:2]
    everywhere = {"0.0.0.0": _LOOPBACK, "::": "::1"}  # noqa: S104 - compared, not bound
    return show_contact((everywhere.get(host, host), port))


def _status(code: int | None, *, stopping: bool) -> int:
    """Return an exit status as a shell shows it."""
    if code is None or (stopping and code == -signal.SIGTERM):
        return 0  # it was ended before it could handle the signal
    return 128 - code if code < 0 else code
