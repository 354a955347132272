"""QuicR's manifests: what is read is written and read again; all else is the peer's fault."""

from __future__ import annotations

from laps_wire.errors import RemoteError
from laps_wire.quicr import format_manifest, parse_manifest


def one_input(data: bytes) -> None:
    try:
        manifest = parse_manifest(data)
    except RemoteError:
        return
    assert parse_manifest(format_manifest(manifest)) == manifest


def seeds() -> list[bytes]:
    return [
        b'{"origin":"acme.com","meeting":"m1","publisher":{"id":"Alice","source":[]}}',
        b'{"origin":"o","meeting":"m","publisher":[{"id":"A","source":{"type":"a","streams":[]}}]}',
        b'{"origin":"sjc.acme.com","channel":[{"name":"bakery","id":"1234"}]}',
        b'{"resource":"live.tv","streams":[{"id":"1","codec":"av1","quality":"640x480_30fps"}]}',
    ]
