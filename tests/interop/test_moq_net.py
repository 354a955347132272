"""npm ``@moq/net`` in Chromium subscribes, over WebTransport, to a track that our SDK publishes."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

import laps_sdk
from testkit.browser import Browser, chromium, serve_pages
from testkit.certs import certificates
from testkit.edge_task import edge_relay

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

HERE = Path(__file__).parent / "js"
IMPORTS = {
    "@moq/net": "/node_modules/@moq/net/index.js",
    "@moq/qmux": "/node_modules/@moq/qmux/index.js",
    "@moq/signals": "/node_modules/@moq/signals/index.js",
    "@moq/web-socket-stream": "/node_modules/@moq/web-socket-stream/index.js",
    "@zod/mini": "/node_modules/@zod/mini/index.js",
    "zod/": "/node_modules/zod/",
    "zod/mini": "/node_modules/zod/mini/index.js",
    "async-mutex": "/node_modules/async-mutex/index.mjs",
    "bowser": "/node_modules/bowser/src/bowser.js",
}
PAGE = f"""<!doctype html><meta charset="utf-8"><title>@moq/net</title>
<script type="importmap">{json.dumps({"imports": IMPORTS})}</script>
<script type="module">
import * as Moq from "@moq/net";
window.heard = [];
window.listen = async (url, hash, path, name) => {{
  const connection = await Moq.Connection.connect(new URL(url), {{
    webtransport: {{ serverCertificateHashes: [{{ value: hash }}] }},
    websocket: {{ enabled: false }},
  }});
  window.version = connection.version;
  const track = connection.consume(Moq.Path.from(path)).track(name).subscribe();
  window.subscribed = true;
  for (;;) {{
    const group = await track.recvGroup();
    if (!group) break;
    for (;;) {{
      const frame = await group.readFrame();
      if (!frame) break;
      window.heard.push(new TextDecoder().decode(frame.payload ?? frame));
    }}
  }}
}};
window.ready = true;
</script>
"""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copy(HERE / "package.json", folder)
    ended = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    if ended.returncode:
        pytest.skip(f"npm could not install @moq/net: {ended.stderr[-300:]}")
    served = {
        f"/{path.relative_to(folder).as_posix()}": ("text/javascript", path.read_bytes())
        for path in folder.rglob("*")
        if path.suffix in {".js", ".mjs"}
    }
    served["/"] = ("text/html; charset=utf-8", PAGE.encode())
    with serve_pages(served) as address:
        yield f"{address}/"


@pytest.mark.parametrize("draft", ["moqt-16", "moqt-18"])
async def test_the_browser_hears_our_client(browser: Browser, pages: str, draft: str) -> None:
    async with (
        edge_relay(drafts=(draft,)) as edge,
        laps_sdk.connect(edge.url(), ca_file=edge.ca_file) as session,
    ):
        track = await session.publish("room/dave", "video", announce=True)
        page = await asyncio.to_thread(browser.open, pages)
        await asyncio.to_thread(page.wait_for, "window.ready === true")
        pin = certificates().other_sha256.hex()
        arguments = json.dumps([edge.url("https"), pin, "room/dave", "video"])
        page.evaluate(f"void window.listen(...{arguments})")
        async with asyncio.timeout(60):
            await track.subscribed()
        for number in range(5):
            await track.write(b"frame %d" % number, end_of_group=True)
        try:
            await asyncio.to_thread(page.wait_for, "window.heard.length >= 5")
        except AssertionError as error:
            raise AssertionError(page.said) from error
        heard = page.evaluate("window.heard")
        assert isinstance(heard, list)
        # Groups are streams of their own: the browser may hand them out in any order.
        assert sorted(heard) == [f"frame {number}" for number in range(5)]
