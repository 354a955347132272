"""What systemd wants and gives: readiness messages, and sockets that it opened for us.

Both are small protocols (sd_notify(3), sd_listen_fds(3)); no library is needed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Final, NamedTuple

from laps_relay.server.workers import Worker

__all__ = ["Sockets", "inherited", "notify", "take_sockets"]

_FIRST_FD: Final = 3


class Sockets(NamedTuple):
    """Sockets that were handed to us."""

    quic: socket.socket | None = None
    admin: socket.socket | None = None
    peers: socket.socket | None = None


def inherited(worker: Worker) -> Sockets:
    """The sockets that a parent opened for its worker."""
    client, peers = socket.socket(fileno=worker.client_fd), socket.socket(fileno=worker.peer_fd)
    admin = None if worker.admin_fd is None else socket.socket(fileno=worker.admin_fd)
    for sock in (client, peers, admin):
        if sock is not None:
            sock.setblocking(False)
    return Sockets(client, admin, peers)


def notify(state: str, environment: Mapping[str, str]) -> bool:
    """Tell systemd ``READY=1`` and the like; False if nobody asked."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    # A leading "@" stands for the abstract namespace.
    where = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), where)
    except OSError:
        return False
    return True


def take_sockets(environment: Mapping[str, str]) -> Sockets:
    """The sockets of LISTEN_FDS: the UDP one is for clients, the TCP one for the admin."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return Sockets()
    count = environment.get("LISTEN_FDS", "")
    quic: socket.socket | None = None
    admin: socket.socket | None = None
    for number in range(_FIRST_FD, _FIRST_FD + (int(count) if count.isdecimal() else 0)):
        sock = socket.socket(fileno=number)
        sock.setblocking(False)
        if sock.type == socket.SOCK_DGRAM and quic is None:
            quic = sock
        elif sock.type == socket.SOCK_STREAM and admin is None:
            admin = sock
        else:
            sock.close()
    return Sockets(quic, admin)
