"""``laps_sdk.connect``: where every application begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laps_sdk.client.core.backoff import Backoff
from laps_sdk.client.options import CLIENT_EGRESS, ConnectOptions, TokenLike
from laps_sdk.client.session import Session
from laps_sdk.quic.base import ConnectionLimits, EgressLimits
from laps_sdk.quic.endpoint import Backend
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.tokens.constants import TOKEN_TYPE_CAT
from laps_sdk.uri import RelayAddress, parse_address

if TYPE_CHECKING:
    from laps_sdk.quic.memory.network import MemoryNetwork

__all__ = ["connect"]


def connect(
    address: str | RelayAddress,
    *,
    ca_file: str | None = None,
    pin: str | None = None,
    insecure: bool = False,
    token: TokenLike = None,
    token_type: int = TOKEN_TYPE_CAT,
    transport: Backend = "aioquic",
    drafts: Sequence[str] = DRAFTS,
    reconnect: bool = True,
    timeout: float = 10.0,
    backoff: Backoff | None = None,
    limits: ConnectionLimits | None = None,
    egress: EgressLimits | None = None,
    top_n: int | None = None,
    network: MemoryNetwork | None = None,
) -> Session:
    """A session with a relay, to be used with ``async with``.

    ``moqt://host:33435`` is raw QUIC, ``https://host:33435/moq`` WebTransport.

    The certificate is checked against the system's authorities, against ``ca_file``, or only by its
    SHA-256 (``pin``, as ``laps-relay dev-cert`` prints it). On loopback the development certificate
    of a relay of the same user is found by itself. ``insecure`` takes any.

    ``token`` authorizes the session: a token, or a function that gives a fresh one for each
    connection. ``timeout`` is how long to wait for a connection and for each answer, in seconds.
    A connection that is lost is made again, unless ``reconnect`` is False; ``backoff`` says when.
    ``top_n`` asks for only so many tracks below each prefix, those that rank highest.
    ``network`` is for tests: the memory network on which ``address`` is.
    """
    return Session(
        parse_address(address) if isinstance(address, str) else address,
        ConnectOptions(
            ca_file=ca_file,
            pin=pin,
            insecure=insecure,
            token=token,
            token_type=token_type,
            transport=transport,
            drafts=tuple(drafts),
            reconnect=reconnect,
            timeout=timeout,
            backoff=backoff or Backoff(),
            limits=limits or ConnectionLimits(),
            egress=egress or CLIENT_EGRESS,
            top_n=top_n,
            network=network,
        ),
    )
