"""aiomoqt's interop client: the six public cases and its further ones, against our relay."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path

import pytest

from laps_sdk.quic.endpoint import Backend
from testkit.edge_task import edge_relay
from testkit.peers import available

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not available("aiomoqt"), reason="aiomoqt is not installed: it needs Python 3.12"
    ),
    pytest.mark.timeout(300),
]

PUBLIC_CASES = (
    "setup-only",
    "announce-only",
    "publish-namespace-done",
    "subscribe-error",
    "announce-subscribe",
    "subscribe-before-announce",
)


@pytest.mark.parametrize("backend", ["aioquic", "qh3"])
@pytest.mark.parametrize("scheme", ["moqt", "https"])
@pytest.mark.parametrize("draft", [16, 18])
async def test_all_cases_pass(draft: int, scheme: str, backend: Backend) -> None:
    client = shutil.which("moq-interop-client", path=str(Path(sys.executable).parent))
    assert client is not None
    async with edge_relay(backend=backend) as edge:
        process = await asyncio.create_subprocess_exec(
            client, "--relay", edge.url(scheme), "--tls-disable-verify", "--draft", str(draft),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(240):
                said, complaints = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    text = said.decode()
    results = dict(re.findall(r"^(?:not )?ok \d+ - (\S+)(.*)$", text, re.MULTILINE))
    failed = re.findall(r"^not ok \d+ - (.*)$", text, re.MULTILINE)
    assert not failed, text + complaints.decode()
    assert set(PUBLIC_CASES) <= set(results), text
