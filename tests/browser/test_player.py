"""The player page in Chromium: publisher, relay and browser, as users have them."""

from __future__ import annotations

import asyncio
import io
import json
from urllib.parse import urlencode

import pytest
from PIL import Image

import laps_sdk
from testkit.browser import Browser, Page
from testkit.page_feed import page_feed
from testkit.relay_process import RunningRelay, relay_process

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

NAMESPACE = laps_sdk.Namespace.of(b"live", b"a/b")
NAME = b"camera 1"


def picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(buffer, kind)
    return buffer.getvalue()


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"></svg>'
MARKUP = b"<b onclick=alert(1)>not markup</b><script>window.caught = true</script>"
NUMBER = "Number(document.getElementById('objects').textContent)"
WIDTH = "document.querySelector('#picture img')?.naturalWidth"
KIND = "document.querySelector('#picture > *')?.dataset.kind"


def open_player(browser: Browser, relay: RunningRelay) -> Page:
    query = {"url": relay.web_url, "namespace": "live/a%2Fb", "name": "camera 1"}
    return browser.open(f"{relay.admin}/player.html?{urlencode(query)}")


def text(page: Page, element: str) -> str:
    return str(page.evaluate(f"document.getElementById({json.dumps(element)}).textContent"))


async def test_everything_that_can_be_drawn(browser: Browser, relay: RunningRelay) -> None:
    async with page_feed(relay, NAMESPACE, NAME) as feed:

        def look() -> None:
            page = open_player(browser, relay)
            for payload, kind in (
                (picture("PNG"), "image/png"),
                (picture("JPEG"), "image/jpeg"),
                (b'<?xml version="1.0"?>\n' + SVG, "image/svg+xml"),
                (SVG, "image/svg+xml"),
            ):
                feed.payload = payload
                # Both at once: pictures go on coming, and a width is 0 while the next one loads.
                page.wait_for(f"{KIND} === {json.dumps(kind)} && {WIDTH} === 40")
            feed.payload = MARKUP
            page.wait_for(f"{KIND} === 'text'")
            assert page.evaluate("document.querySelector('pre').textContent") == MARKUP.decode()
            assert page.evaluate("document.querySelector('pre').childElementCount") == 0
            assert page.evaluate("window.caught") is None
            feed.payload = bytes(range(256)) * 3
            page.wait_for(f"{KIND} === 'hex'")
            dump = page.evaluate("document.querySelector('pre').textContent")
            assert dump.startswith("000000  00 01 02 03")
            assert dump.endswith("... 768 bytes")
            assert text(page, "protocol") == "moqt-18"
            assert text(page, "state") == "subscribed"
            assert text(page, "location").partition(" / ")[0].isdigit()
            for figure in ("latency", "p50", "p99"):
                assert text(page, figure).endswith(" ms")
            page.wait_for("document.getElementById('plot').ariaLabel.includes('ms')")
            page.evaluate("document.getElementById('stop').click()")
            page.wait_for("document.getElementById('state').textContent === 'stopped'")
            assert not page.said

        await asyncio.to_thread(look)


async def test_draft_16_and_datagrams_without_capture_times(browser: Browser) -> None:
    with relay_process(LAPS_LISTEN__DRAFTS="moqt-16") as relay:
        async with page_feed(relay, NAMESPACE, NAME, timestamps=False) as feed:
            feed.datagrams = True

            def look() -> None:
                page = open_player(browser, relay)
                page.wait_for(f"{NUMBER} > 3")
                assert text(page, "protocol") == "moqt-16"
                assert text(page, "latency") == "unknown"
                assert page.evaluate("document.querySelector('pre').textContent") == "the first"
                feed.datagrams = False
                feed.payload = b"on a stream"
                page.wait_for("document.querySelector('pre').textContent === 'on a stream'")
                page.evaluate("document.getElementById('stop').click()")

            await asyncio.to_thread(look)


def test_a_relay_that_is_not_there(browser: Browser, relay: RunningRelay) -> None:
    page = browser.open(f"{relay.admin}/player.html?url=https://127.0.0.1:1/&namespace=a&name=b")
    page.wait_for("!document.getElementById('error').hidden")
    assert text(page, "error")
    page.wait_for("document.getElementById('state').textContent === 'stopped'")


def test_the_form_suggests_the_relay_beside_the_page(browser: Browser, relay: RunningRelay) -> None:
    page = browser.open(f"{relay.admin}/player.html")
    page.wait_for(f"document.forms[0].elements.url.value === {json.dumps(relay.web_url)}")
    named = "[...document.querySelectorAll('input, select')].every((e) => e.labels.length === 1)"
    assert page.evaluate(named) is True
    assert not page.said
