"""What the process of a Stub holds, and what it does when its operator drains or reloads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testkit.network_task import network, until

POLICY = '[regions.eu]\nlabels = { country = "DE" }\n'

LEFT_OUT = (
    "laps_relay.admin.app",
    "laps_relay.cpp",
    "laps_relay.network.relay",
    "laps_relay.network.nodes.nib",
    "laps_relay.policy",
    "laps_relay.server.network_part",
    "laps_relay.sim",
    "laps_relay.stubs",
)


def test_a_stub_imports_no_node_base_no_policy_and_no_admin() -> None:
    text = "import sys, laps_relay.cli, laps_relay.server.stub_part; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    loaded = found.stdout.split()
    assert "laps_sdk.stub.relay" in loaded
    assert not set(LEFT_OUT) & set(loaded)


@pytest.mark.anyio
async def test_clients_of_a_stub_that_drains_find_a_relay_themselves(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        edge = await net.relay("edge")
        stub = await net.relay("stub", edge)
        await until(lambda: [row.relay_type for row in stub.network.peers()] == ["edge"])
        async with stub.connect(reconnect=False) as client:
            await client.publish("a", "b")
            assert stub.network.places() is None
            assert stub.network.patience == 0.0
            stub.app.view.drain("")
            assert all(row.leaving for row in stub.app.view.sessions() if row.session > 0)
            # Clients get GOAWAY without an address: there is nobody to send them to.
            assert stub.app.view.redirect(None, 1.0, "") == 0
        assert stub.app.view.stay() is None
        assert stub.app.view.ready


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["edge", "stub"])
async def test_a_policy_is_reported_as_changed_only_if_its_rules_are_others(
    tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(POLICY, encoding="ascii")
    async with network(tmp_path) as net:
        parent = await net.relay("edge")
        relay = await net.relay(kind, parent, network={"policy": file})
        assert relay.app.reload()
        assert not relay.logged("policy changed")
        file.write_text(POLICY.replace("DE", "FR"), encoding="ascii")
        assert relay.app.reload()
        await until(lambda: relay.logged("policy changed"))
        assert relay.network.policy().rules == ["region eu: with country = FR"]
        assert relay.app.reload()
        assert len(relay.logged("policy changed")) == 1
