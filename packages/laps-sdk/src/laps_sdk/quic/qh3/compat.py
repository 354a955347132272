"""All private names of qh3 2.1.0 that the backend uses, and the workarounds for its faults.

``Guarded`` is qh3's connection with these differences:

- It accepts a client with an empty source id (Chromium). qh3 treats an empty id as unknown: it
  sends to the wrong id and refuses the client's transport parameters. ``Guarded`` builds the core
  with an empty peer id. Our own id is that of the Retry, which the client already uses. The keys of
  Initial packets depend on that id (RFC 9001, 5.2), so ``Guarded`` installs them.
- It polls packets one by one, because ``datagrams_to_send`` may raise and lose built packets.
- It sends waiting frames before it reads events, once data was repeated. Reading events removes
  finished streams. If a waiting frame repeats data of a removed stream, the core discards the whole
  packet ("reserved stream is missing"). Then the other streams in it hang. While the window or the
  pacer holds frames back, events wait, for at most ``_HOLD`` seconds. If the fault occurs
  nevertheless, the connection is closed and the reason logged.
- It keeps the server name of the client (SNI) and checks pinned certificates.
- Its first connection id has a token of stateless resets from a key that outlives the process. The
  core draws those of later ids, which clients use only after a migration.
- It exposes statistics of the core, and does not log a warning when a peer closes.

The module checks the names and the release of qh3 at import.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final, cast

from laps_sdk.errors import TransportError
from laps_sdk.quic import library
from laps_sdk.quic.base import Address
from laps_sdk.quic.library import watch_handshake

try:
    from qh3 import tls
    from qh3._hazmat import QuicConnectionCore
    from qh3.quic import events
    from qh3.quic.configuration import QuicConfiguration
    from qh3.quic.connection import QuicConnection, QuicConnectionError
    from qh3.quic.crypto import CIPHER_SUITES, derive_key_iv_hp
    from qh3.quic.logger import QuicLoggerTrace
    from qh3.quic.packet import QuicProtocolVersion
except ImportError as error:
    raise TransportError(
        'qh3 is not installed: pip install -e "packages/laps-sdk[turbo]", or use aioquic'
    ) from error

__all__ = [
    "Guarded",
    "QuicConfiguration",
    "QuicConnectionError",
    "QuicLoggerTrace",
    "check",
    "events",
    "missing_names",
]

_log = logging.getLogger("laps_sdk.quic")

_RELEASE: Final = "2.1.0"
_INITIAL_SALT: Final = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
"""The salt of QUIC version 1 (RFC 9001, 5.2)."""
_INITIAL_SUITE: Final = tls.CipherSuite.AES_128_GCM_SHA256
_FAILURES: Final = 16
"""Polls in a row that raise and return nothing, after which the connection is closed."""
_HOLD: Final = 0.05
"""The most seconds that events wait for frames that the core holds back."""
_INTERNAL_ERROR: Final = 0x1

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "QuicConnection": (
        "_applied_transport_parameters", "_call_core", "_close_event", "_core", "_create_core",
        "_create_tls", "_drain_core", "_is_client", "_log_datagram", "_log_packets",
        "_open_stream", "_quic_logger", "_remote_max_datagram_frame_size", "_require_core",
        "_tls", "_version",
    ),
    "QuicConnectionCore": (
        "active_path", "bytes_in_flight", "can_send_stream", "congestion_window",
        "get_send_buffer_size", "get_timer", "install_packet_key", "loss_total", "poll_transmit",
        "smoothed_rtt", "state", "stream_limits",
    ),
    "tls.Context": ("_client_handle_certificate_verify", "_server_handle_hello"),
    "QuicLoggerTrace": ("_events",),
}  # fmt: skip


def _not_routine(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Native peer close")


# Every close by a peer is a warning for qh3; a server's log would be full of them.
logging.getLogger("quic").addFilter(_not_routine)


class Guarded(QuicConnection):
    """A connection of qh3 with the module's corrections."""

    client_server_name = ""
    """On a server, the name that the client asked for."""

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        pins: frozenset[bytes] = frozenset(),
        client_id: bytes = b"?",
        reset_token: Callable[[bytes], bytes] = lambda _: os.urandom(16),
        original_destination_connection_id: bytes | None = None,
        retry_source_connection_id: bytes | None = None,
    ) -> None:
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_destination_connection_id,
            retry_source_connection_id=retry_source_connection_id,
        )
        self._pins = pins
        self._reset_token = reset_token
        self._failures = 0
        self._built: list[tuple[bytes, Address]] = []
        self._received_at: float | None = None
        self._repeats = False
        self._held_until: float | None = None
        self._peer_id_is_empty = not client_id and retry_source_connection_id is not None
        if self._peer_id_is_empty:
            self.host_cid = cast("bytes", retry_source_connection_id)

    # The empty id of Chromium

    def _create_core(self, remote_addr: Any, initial_dcid: bytes, now: float) -> None:
        if not self._peer_id_is_empty:
            super()._create_core(remote_addr, initial_dcid, now)
            return
        super()._create_core(remote_addr, b"", now)
        root = hmac.digest(_INITIAL_SALT, initial_dcid, "sha256")
        algorithm = tls.cipher_suite_hash(_INITIAL_SUITE)
        mask, aead = CIPHER_SUITES[_INITIAL_SUITE]
        for direction, label in (("receive", b"client in"), ("send", b"server in")):
            secret = tls.hkdf_expand_label(algorithm, root, label, b"", 32)
            key, iv, hp = derive_key_iv_hp(
                cipher_suite=_INITIAL_SUITE, secret=secret, version=QuicProtocolVersion.VERSION_1
            )
            names = (aead.decode(), mask.decode())
            self._call_core(
                self._require_core().install_packet_key,
                direction, int(tls.Epoch.INITIAL), names, key, iv, hp, 0, secret,
                int(QuicProtocolVersion.VERSION_1),
            )  # fmt: skip

    def _create_tls(self, remote_source_cid: bytes | None) -> Any:
        bridge = super()._create_tls(b"" if self._peer_id_is_empty else remote_source_cid)
        if not self._is_client:
            # The bridge has put its own token into the transport parameters.
            bridge.stateless_reset_token = self._reset_token(self.host_cid)
            kind = int(tls.ExtensionType.QUIC_TRANSPORT_PARAMETERS)
            parameters = bridge.serialize_transport_parameters()
            bridge.tls.handshake_extensions = [(kind, parameters)]
        context: Any = bridge.tls
        watch_handshake(
            context,
            tls,
            pins=self._pins,
            leaf=lambda: bytes(context.peer_certificate.public_bytes()),
            on_server_name=None if self._is_client else self._server_name_read,
        )
        return bridge

    def _server_name_read(self, name: str) -> None:
        self.client_server_name = name

    # Packets

    def receive_many_datagrams(self, datagrams: list[bytes], addr: Any, now: float) -> None:
        """Process datagrams like the parent; the module explains the order after a loss."""
        self._received_at = now
        try:
            super().receive_many_datagrams(datagrams, addr, now)
        finally:
            self._received_at = None

    def handle_timer(self, now: float) -> None:
        """Handle timers like the parent, and note that a probe timeout repeats data."""
        core = self._core
        if core is not None and not self._repeats:
            timer = core.get_timer()
            self._repeats = timer is not None and timer[0] == "loss_detection"
        self._received_at = now
        try:
            super().handle_timer(now)
        finally:
            self._received_at = None

    def get_timer(self) -> float | None:
        """Return the parent's timer, or when held events are due if that is earlier."""
        timer = super().get_timer()
        held = self._held_until
        return held if timer is None or (held is not None and held < timer) else timer

    def _drain_core(self) -> None:
        core, now = self._core, self._received_at
        if now is not None and core is not None and (self._repeats or core.loss_total):
            self._repeats = True
            self._collect(core, now)
            if self._hold_events(core, now):
                return
        super()._drain_core()

    def _hold_events(self, core: QuicConnectionCore, now: float) -> bool:
        """Return whether events wait because frames may wait in the core."""
        timer = core.get_timer()
        if core.congestion_window - core.bytes_in_flight >= core.active_path[5] and (
            timer is None or timer[0] != "pacing"
        ):
            self._held_until = None
            return False
        if self._held_until is None:
            self._held_until = now + _HOLD
        elif now >= self._held_until:
            self._held_until = None
            return False
        return True

    def poll(self, now: float) -> list[tuple[bytes, Address]]:
        """Return the packets to send, including those built before the core raised."""
        core = self._core
        if core is None:
            return []
        self._collect(core, now)
        built, self._built = self._built, []
        if not (self._repeats and self._hold_events(core, now)):
            super()._drain_core()
        return built

    def _collect(self, core: QuicConnectionCore, now: float) -> None:
        built = self._built
        before = len(built)
        poll_transmit = core.poll_transmit
        logged = self._quic_logger is not None
        try:
            while (packet := poll_transmit(now)) is not None:
                built.append((packet[0], packet[1][:2]))  # IPv6 comes with flow and scope
                if logged:
                    self._log_datagram("datagrams_sent", packet[0])
                    self._log_packets("packet_sent", packet[0])
        except ValueError as error:
            _log.error(
                "qh3 lost frames to %s (%s): the connection is closed", self.peer_address, error
            )
            self.close(_INTERNAL_ERROR, 0, f"qh3 lost frames: {error}")
        except RuntimeError as error:
            self._failures = 0 if len(built) > before else self._failures + 1
            if self._failures >= _FAILURES:
                self.close(_INTERNAL_ERROR, 0, f"qh3 cannot build a packet: {error}")
        else:
            self._failures = 0

    # Figures

    @property
    def server_certificate(self) -> bytes:
        """On a client, the server's certificate in DER; b"" before it is known."""
        shown = None if self._tls is None else self._tls.tls.peer_certificate
        return b"" if shown is None else bytes(shown.public_bytes())

    @property
    def peer_reset_token(self) -> bytes:
        """The reset token of the id that packets are sent to; b"" if there is none."""
        known = self._applied_transport_parameters
        return b"" if known is None else known.stateless_reset_token or b""

    @property
    def peer_address(self) -> Address | None:
        """The address that packets are sent to; None before there is a path."""
        core = self._core
        return None if core is None else cast("Address", tuple(core.active_path[2][:2]))

    @property
    def close_event(self) -> Any:
        """The event with the reason of the close; None while the connection is open."""
        return self._close_event

    @property
    def is_draining(self) -> bool:
        """Whether the peer closed the connection."""
        return self._core is not None and self._core.state == "draining"

    @property
    def rtt(self) -> float | None:
        """The smoothed round-trip time in seconds; None before there is a path."""
        return None if self._core is None else self._core.smoothed_rtt

    @property
    def congestion(self) -> tuple[int, int]:
        """Congestion window and bytes in flight."""
        core = self._core
        return (0, 0) if core is None else (core.congestion_window, core.bytes_in_flight)

    @property
    def lost(self) -> int:
        """The number of lost packets."""
        return 0 if self._core is None else self._core.loss_total

    def streams_left(self, unidirectional: bool) -> int:
        """Return how many more streams the peer allows; its limit counts all that were opened."""
        if self._core is None:
            return 0
        bidi, uni, opened_bidi, opened_uni = self._core.stream_limits
        return uni - opened_uni if unidirectional else bidi - opened_bidi

    def open_stream(self, unidirectional: bool) -> int:
        """Open a stream and return its id; the caller has checked ``streams_left``."""
        return self._open_stream(unidirectional)

    @property
    def packet_size(self) -> int:
        """The largest packet on the present path, in bytes."""
        return 0 if self._core is None else self._core.active_path[5]

    @property
    def peer_datagram_frame(self) -> int:
        """The longest DATAGRAM frame that the peer accepts; 0 if none."""
        return self._remote_max_datagram_frame_size or 0

    def end_trace(self) -> None:
        """Write the qlog file before the draining period ends."""
        self._end_trace()


def missing_names() -> list[str]:
    """Return the used names that the installed qh3 lacks."""
    samples: dict[str, object] = {
        "QuicConnection": QuicConnection(configuration=QuicConfiguration(is_client=True)),
        "QuicConnectionCore": QuicConnectionCore,
        "tls.Context": tls.Context,
        "QuicLoggerTrace": QuicLoggerTrace(is_client=True, odcid=b""),
    }
    return library.missing_names(_NAMES, samples)


def check() -> None:
    """Raise ``TransportError`` if the installed qh3 is another release than the tested one."""
    installed = version("qh3")
    missing = missing_names()
    if missing or installed != _RELEASE:
        lacks = f" (it lacks {', '.join(missing)})" if missing else ""
        raise TransportError(f"qh3 {installed} is installed{lacks}; the transport needs {_RELEASE}")


check()
