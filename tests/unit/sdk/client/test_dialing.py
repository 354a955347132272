"""From a name to a link."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

import laps_sdk
from laps_sdk.client import dial
from testkit.edge_task import edge_relay
from testkit.moqt_server import soon

pytestmark = pytest.mark.anyio


def answering(*hosts: str) -> Any:
    """A resolver that knows only these addresses."""

    async def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", (each, port)) for each in hosts]

    return getaddrinfo


async def test_the_next_address_is_tried_while_the_first_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dial, "_HEAD_START", 0.01)
    loop = asyncio.get_running_loop()
    # 192.0.2.0/24 is for documentation: nobody answers there.
    monkeypatch.setattr(loop, "getaddrinfo", answering("192.0.2.1", "127.0.0.1"))
    async with edge_relay() as edge:
        session = laps_sdk.connect(f"moqt://localhost:{edge.port}", ca_file=edge.ca_file)
        async with session:
            assert session.connected


async def test_every_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "_HEAD_START", 0.01)
    loop = asyncio.get_running_loop()
    async with edge_relay(drafts=("moqt-16",)) as edge:
        monkeypatch.setattr(loop, "getaddrinfo", answering("127.0.0.1"))
        session = laps_sdk.connect(
            f"moqt://localhost:{edge.port}", ca_file=edge.ca_file, drafts=["moqt-18"]
        )
        with pytest.raises(laps_sdk.ConnectError, match="moqt://localhost"):
            await soon(session.__aenter__())


async def test_a_transport_that_does_not_exist_is_an_error_of_ours() -> None:
    session = laps_sdk.connect("moqt://127.0.0.1:9", transport="carrier-pigeon")  # type: ignore[arg-type] # that is the point
    with pytest.raises(laps_sdk.LapsError, match="carrier-pigeon"):
        await soon(session.__aenter__())


async def test_a_socket_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(**_: object) -> None:
        raise OSError("no more sockets")

    monkeypatch.setattr(dial, "open_endpoint", refuse)
    with pytest.raises(laps_sdk.ConnectError, match="no socket: no more sockets"):
        await soon(laps_sdk.connect("moqt://127.0.0.1:9").__aenter__())
