"""What a hop adds: delay at light load, and CPU for each forwarded gigabyte.

    python -m relay.hops                      direct, one Edge, Edge-Edge, Edge-Via-Edge
    python -m relay.hops --transport qh3      relays on another QUIC library
    python -m relay.hops --json out.json      everything that was measured

``direct`` is the baseline of the same run: the publisher connects to the subscriber itself, over
aioquic without any relay (both in the load's process, so its CPU is that of both ends). All others
are ``laps-relay serve`` on loopback, one process each, all of them on one core and the load on the
other; objects are counted and checked for order and doubles. Delays are of objects that are written
every 5 ms or less often; compare them inside one run, on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relay.run import GIGA, cpu_of, environment, pin

CHAINS: dict[str, tuple[str, ...]] = {
    "direct": (),
    "edge": ("edge",),
    "edge-edge": ("edge", "edge"),
    "edge-via-edge": ("edge", "via", "edge"),
    "edge-via-via-edge": ("edge", "via", "via", "edge"),
}
PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run of one chain at one rate."""

    chain: str
    hops: int
    rate: float
    delivered: int
    written: int
    disorder: int
    p50_ms: float
    p99_ms: float
    cpu_per_gb: float
    """Of all relays together; of the load for ``direct``."""
    cpu_by_relay: list[float]


@contextmanager
def relay_of(kind: str, state: str, transport: str, *peers: str) -> Iterator[Any]:
    """One relay on the first core; gives the process and what it says of itself."""
    command = [
        *pin(0), str(Path(sys.executable).parent / "laps-relay"), "serve", "--type", kind,
        "--port", "0", "--peer-port", "0", "--admin-port", "0", "--state-dir", state,
        "--transport", transport, "--json", "--log-level", "error",
    ]  # fmt: skip
    for peer in peers:
        command += ["--peer", peer]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment({"LAPS_STATE_DIR": state})
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise SystemExit(f"a relay of type {kind} did not start")
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def settled(admin: str, nodes: int) -> None:
    """Wait until a relay knows a way to all others."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        with urllib.request.urlopen(f"{admin}/v1/network/nodes", timeout=10) as answer:  # noqa: S310
            rows = json.load(answer)["items"]
        if sum(row["next_hop"] is not None for row in rows) == nodes - 1:
            return
        time.sleep(0.05)
    raise SystemExit("the relays did not find each other")


def measure(chain: str, rate: float, arguments: argparse.Namespace) -> Row:
    """One run."""
    kinds = CHAINS[chain]
    with ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory())
        relays: list[Any] = []
        for kind in kinds:
            peers = [relays[-1][1]["peers"]] if relays else []
            relays.append(stack.enter_context(relay_of(kind, state, arguments.transport, *peers)))
        where = ["--direct", "--backend", "aioquic-stock"]
        if relays:
            for _, facts in relays:
                settled(facts["admin"], len(relays))
            ports = [facts["url"].rpartition(":")[2] for _, facts in (relays[0], relays[-1])]
            where = ["--port", ports[0], "--subscribe-port", ports[1]]
        command = [
            *pin(1), sys.executable, "-m", "relay.load", *where, "--alpn", "moqt-18",
            "--subscribers", "1", "--rate", str(rate), "--seconds", str(arguments.seconds),
            "--size", str(arguments.size),
        ]  # fmt: skip
        load = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment({}))
        )
        if load.stdout is None or not load.stdout.readline():
            raise SystemExit(f"the load for {chain} failed")
        before = [cpu_of(process.pid) for process, _ in relays]
        said = json.loads(load.stdout.readline() or "null")
        if said is None:
            raise SystemExit(f"the load for {chain} ended early")
        used = [cpu_of(process.pid) - was for (process, _), was in zip(relays, before, strict=True)]
    cpu = sum(used) if used else said["load_cpu"]
    return Row(
        chain=chain,
        hops=len(kinds),
        rate=rate,
        delivered=said["delivered"],
        written=said["written"],
        disorder=said["disorder"],
        p50_ms=said["p50_ms"],
        p99_ms=said["p99_ms"],
        cpu_per_gb=cpu / said["bytes"] * GIGA,
        cpu_by_relay=[each / said["bytes"] * GIGA for each in used],
    )


def show(row: Row, direct: Row) -> None:
    """One line for people."""
    added = (row.p50_ms - direct.p50_ms) / row.hops if row.hops else 0.0
    each = ", ".join(f"{cpu:.0f}" for cpu in row.cpu_by_relay)
    print(
        f"{row.chain:18} {row.rate:6.0f}/s  {row.delivered}/{row.written} delivered"
        f"  p50 {row.p50_ms:6.2f} ms  p99 {row.p99_ms:7.2f} ms  added by a hop {added:6.2f} ms"
        f"  {row.cpu_per_gb:6.1f} CPU s/GB"
        + (f" ({each}; 1/{direct.cpu_per_gb / row.cpu_per_gb:.1f} of direct)" if each else "")
        + (f"  DISORDER {row.disorder}" if row.disorder else ""),
        flush=True,
    )


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chains", nargs="+", choices=list(CHAINS), default=list(CHAINS)[:4])
    parser.add_argument("--rates", nargs="+", type=float, default=[50.0, 1000.0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--size", type=int, default=1200)
    parser.add_argument("--transport", default="aioquic", choices=["aioquic", "qh3"])
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for rate in arguments.rates:
        direct = measure("direct", rate, arguments)
        show(direct, direct)
        rows.append(direct)
        for chain in arguments.chains:
            if chain != "direct":
                row = measure(chain, rate, arguments)
                show(row, direct)
                rows.append(row)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))
    lossy = any(row.disorder or row.delivered < row.written for row in rows)
    return 1 if lossy else 0


if __name__ == "__main__":
    raise SystemExit(main())
