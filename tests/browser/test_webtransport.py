"""A real browser against our WebTransport: what no peer of our own making can show."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from laps_sdk.quic.base import Connection
from laps_sdk.quic.endpoint import open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.events import Closed, DatagramReceived, Event, StreamData, StreamReset
from testkit.browser import chromium, serve_pages
from testkit.certs import certificates

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

SCRIPT = """
(async () => {
  const [port, hash] = ARGUMENTS;
  const value = Uint8Array.from(hash.match(/../g), (byte) => parseInt(byte, 16));
  const transport = new WebTransport(`https://127.0.0.1:${port}/moq?a=b`, {
    protocols: ['moqt-99', 'moqt-18'],
    serverCertificateHashes: [{algorithm: 'sha-256', value}],
  });
  await transport.ready;
  const found = {protocol: transport.protocol};
  const text = async (readable) => {
    let all = '';
    const decoder = new TextDecoder();
    for await (const chunk of readable) all += decoder.decode(chunk, {stream: true});
    return all;
  };
  const send = async (writable, data) => {
    const writer = writable.getWriter();
    await writer.write(new TextEncoder().encode(data));
    return writer;
  };
  const reader = transport.incomingUnidirectionalStreams.getReader();
  found.greeting = await text((await reader.read()).value);
  const bidi = await transport.createBidirectionalStream();
  await (await send(bidi.writable, 'echo this')).close();
  found.echo = await text(bidi.readable);

  const datagrams = transport.datagrams.readable.getReader();
  const writer = transport.datagrams.writable.getWriter();
  let answered = false;
  const answer = datagrams.read().then(({value}) => {
    answered = true;
    return new TextDecoder().decode(value);
  });
  while (!answered) {  // datagrams may be lost
    await writer.write(new TextEncoder().encode('datagram'));
    await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 50))]);
  }
  found.datagram = await answer;

  const refused = await transport.createBidirectionalStream();
  send(refused.writable, 'refuse this').catch(() => {});
  try {
    await text(refused.readable);
  } catch (error) {
    found.reset = error.streamErrorCode;
  }
  const aborted = await transport.createUnidirectionalStream();
  const aborting = await send(aborted, 'abort this');
  found.seen = await text((await reader.read()).value);  // a reset may overtake what is not there
  await aborting.abort(
    new WebTransportError({message: 'x', streamErrorCode: 31}));

  const ending = await transport.createUnidirectionalStream();
  if (END === 'server') {
    // The session may end before the browser calls the stream closed.
    send(ending, 'close').then((writer) => writer.close()).catch(() => {});
  } else {
    await (await send(ending, 'stay')).close();
    transport.close({closeCode: 8, reason: 'enough'});
  }
  const {closeCode, reason} = await transport.closed;
  found.closed = [closeCode, reason];
  return found;
})()
"""


class Echo:
    """Greets, echoes what is finished, refuses what asks for it."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.over = threading.Event()
        self.events: list[Event] = []
        self._received: dict[int, bytes] = {}

    def __call__(self, connection: Connection) -> Echo:
        self.connection = connection
        connection.open_unidirectional().write(b"welcome", fin=True)
        return self

    def handle_events(self, events: Sequence[Event]) -> None:
        assert self.connection is not None
        self.events += events
        for event in events:
            if isinstance(event, StreamData):
                self._data(self.connection, event)
            elif isinstance(event, DatagramReceived):
                self.connection.send_datagram(event.data)
            elif isinstance(event, Closed):
                self.over.set()

    def _data(self, connection: Connection, event: StreamData) -> None:
        data = self._received[event.stream_id] = (
            self._received.get(event.stream_id, b"") + event.data
        )
        if data == b"refuse this":
            connection.reply_stream(event.stream_id).reset(30)
            connection.stop_sending(event.stream_id, 30)
        elif data == b"abort this":
            connection.open_unidirectional().write(b"abort it", fin=True)
        elif event.fin and data == b"close":
            connection.close(7, "as you wish")
        elif event.fin and not event.stream_id & 2:
            connection.reply_stream(event.stream_id).write(data, fin=True)


@pytest.mark.parametrize("end", ["server", "client"])
async def test_chromium(end: str) -> None:
    certs = certificates()
    echo = Echo()
    endpoint = await open_endpoint(
        options=EngineOptions(alpn=("moqt-18", "moqt-16"), tls=certs.other_server), listener=echo
    )
    arguments = json.dumps([endpoint.local_address[1], certs.other_sha256.hex()])
    script = SCRIPT.replace("ARGUMENTS", arguments).replace("END", json.dumps(end))

    def browse() -> Any:
        blank = ("text/html", b"<!doctype html><title>blank</title>")
        with serve_pages({"/": blank}) as base, chromium() as browser:
            found = browser.open(f"{base}/").evaluate(script)
            assert echo.over.wait(30)  # a browser that ends does not say so
            return found

    try:
        found = await asyncio.to_thread(browse)
    finally:
        await endpoint.close()
    expected = {
        "protocol": "moqt-18",
        "greeting": "welcome",
        "echo": "echo this",
        "datagram": "datagram",
        "reset": 30,
        "seen": "abort it",
    }
    if end == "server":
        expected["closed"] = [7, "as you wish"]
        assert echo.events[-1] == Closed(7, "as you wish", by_peer=False, application=True)
    else:
        expected["closed"] = [8, "enough"]
        assert echo.events[-1] == Closed(8, "enough", by_peer=True, application=True)
    assert found == expected
    assert echo.connection is not None
    assert echo.connection.path == "/moq?a=b"
    assert echo.connection.alpn == "moqt-18"
    assert 31 in [event.code for event in echo.events if isinstance(event, StreamReset)]
