"""The live view of a relay in Chromium."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import laps_sdk
from testkit.browser import Browser
from testkit.page_feed import page_feed
from testkit.relay_process import RunningRelay, relay_process

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

NAMESPACE = laps_sdk.Namespace.of(b"<b>", b"x.y")
TRACK = "'.3cb.3e-x.2ey--cam'"  # the text form of names


async def test_sessions_tracks_and_throughput(browser: Browser, relay: RunningRelay) -> None:
    async with page_feed(relay, NAMESPACE, b"cam"):

        def look() -> None:
            page = browser.open(f"{relay.admin}/")
            page.wait_for("document.getElementById('state').textContent === 'live'")
            page.wait_for("document.getElementById('info').textContent.includes('moqt-18')")
            page.wait_for(
                "[...document.querySelectorAll('#tracks td.name')]"
                f".some((cell) => cell.textContent === {TRACK})"
            )
            page.wait_for("document.querySelectorAll('#sessions tbody tr').length >= 1")
            page.wait_for("document.getElementById('plot').ariaLabel.startsWith('Throughput: ')")
            page.wait_for(
                "document.querySelector('#subscriptions tbody td').textContent === 'none'"
            )
            # Its link leads to the player, which then is a subscription of its own.
            page.wait_for("document.querySelector('#tracks a')")
            link = page.evaluate("document.querySelector('#tracks a').href")
            player = browser.open(link)
            player.wait_for("Number(document.getElementById('objects').textContent) > 2")
            page.wait_for(
                "[...document.querySelectorAll('#subscriptions td.name')]"
                f".some((cell) => cell.textContent === {TRACK})"
            )
            player.evaluate("document.getElementById('stop').click()")
            headers = "[...document.querySelectorAll('th')].every((cell) => cell.scope === 'col')"
            assert page.evaluate(headers) is True
            assert not page.said
            assert not player.said

        await asyncio.to_thread(look)


async def test_with_a_token_the_page_asks_for_it(browser: Browser) -> None:
    word = "0123456789abcdef"

    def look(relay: RunningRelay) -> None:
        page = browser.open(f"{relay.admin}/")
        page.wait_for("document.querySelector('#access input')")
        assert page.evaluate("document.getElementById('info').textContent") == ""
        for typed, seen in (
            ("a-wrong-one", "document.querySelector('#access p.bad')?.textContent"),
            (word, "document.getElementById('state').textContent === 'live'"),
        ):
            page.evaluate(
                f"document.querySelector('#access input').value = '{typed}';"
                "document.querySelector('#access').requestSubmit()"
            )
            page.wait_for(seen)
        page.wait_for("document.getElementById('info').textContent.includes('moqt-18')")
        # The document that a link to data leads to is caught before the page goes there.
        page.evaluate(
            "URL.createObjectURL = (blob) => {"
            "  blob.text().then((text) => { window.caught = text; }); return '#caught'; };"
            "document.querySelector('a.data').click()"
        )
        page.wait_for("window.caught?.includes('laps_relay_ready 1.0')")

    with relay_process(LAPS_ADMIN__TOKEN=word) as relay:
        await asyncio.to_thread(look, relay)


def test_the_network(browser: Browser, tmp_path: Path) -> None:
    state = ("--state-dir", str(tmp_path), "--peer-port", "0")
    with (
        relay_process(*state, "--type", "via", "--node-id", "2:1") as via,
        relay_process(*state, "--peer", via.peers, "--node-id", "1:1", "--region", "<i>") as edge,
    ):
        page = browser.open(f"{edge.admin}/network.html")
        page.wait_for("document.getElementById('state').textContent === 'live'")
        page.wait_for("document.getElementById('info').textContent.includes('0.1:0.1')")
        page.wait_for(
            "[...document.querySelectorAll('#peers td.name')]"
            ".some((cell) => cell.textContent === '0.2:0.1')"
        )
        page.wait_for("document.getElementById('nodes-title').textContent === 'Nodes (2)'")
        page.wait_for("document.querySelector('#policy li')")
        page.wait_for("document.getElementById('fib-title').textContent === 'FIB (0)'")
        assert not page.said


def test_a_relay_that_stands_alone(browser: Browser, relay: RunningRelay) -> None:
    page = browser.open(f"{relay.admin}/network.html")
    page.wait_for("document.getElementById('state').textContent.includes('stands alone')")
