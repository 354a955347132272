"""Developer errands: what is useful now and then. The gates live in tox.ini."""

from __future__ import annotations

import nox

nox.options.sessions = ["demo"]
nox.options.reuse_existing_virtualenvs = True

WIRE = ("-e", "packages/laps-wire")
ALL = (
    *WIRE,
    "-e",
    "packages/laps-sdk[cli,tokens,turbo,uvloop,plot]",
    "-e",
    "packages/laps-relay[sim]",
)


def groups(*names: str) -> list[str]:
    """What the dependency groups of pyproject.toml hold."""
    return nox.project.dependency_groups(nox.project.load_toml(), *names)


@nox.session
def demo(session: nox.Session) -> None:
    """What ``make demo`` shows."""
    session.install(*ALL)
    session.run("python", "demo/network.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Encode and decode per message kind: messages and bytes a second, as ratios in one run."""
    session.install(*WIRE)
    session.run("python", "benchmarks/wire.py", *session.posargs)


@nox.session(name="bench-relay")
def bench_relay(session: nox.Session) -> None:
    """Our relay, a plain one and moq-rs in one run; ``-- --limit --shapes``. Wants quiet."""
    session.install(*ALL, *groups("interop"))
    session.chdir("benchmarks")
    session.run("python", "-m", "relay.run", *session.posargs)


@nox.session(name="bench-growth")
def bench_growth(session: nox.Session) -> None:
    """CPU for each object against subscribers and tracks, memory for each session."""
    session.install(*ALL)
    session.chdir("benchmarks")
    session.run("python", "-m", "relay.growth", *session.posargs)


@nox.session(name="bench-plane")
def bench_plane(session: nox.Session) -> None:
    """The forwarding plane alone, and the 1-RTT fast path against stock aioquic."""
    session.install(*ALL)
    session.run("python", "benchmarks/plane.py")
    session.run("python", "benchmarks/fastpath.py")


@nox.session(name="bench-hops")
def bench_hops(session: nox.Session) -> None:
    """What a hop between relays adds: delay, and CPU for each gigabyte. Wants quiet."""
    session.install(*ALL)
    session.chdir("benchmarks")
    session.run("python", "-m", "relay.hops", *session.posargs)


@nox.session
def faults(session: nox.Session) -> None:
    """Kill, drain and stop real relays; account for every object. ``-- --only kill-via``."""
    session.install(*ALL)
    session.chdir("benchmarks")
    session.run("python", "-m", "faults", *session.posargs)


@nox.session(name="bench-network")
def bench_network(session: nox.Session) -> None:
    """A control server with many subscribes, and the forwarding plane between relays."""
    session.install(*ALL)
    session.run("python", "benchmarks/control.py", *session.posargs)
    session.run("python", "benchmarks/peer_plane.py")


@nox.session(name="bench-sim")
def bench_sim(session: nox.Session) -> None:
    """CPU and memory of simulated networks against the number of their relays."""
    session.install(*ALL)
    session.run("python", "benchmarks/simulator.py", *session.posargs)


@nox.session(name="bench-analytics")
def bench_analytics(session: nox.Session) -> None:
    """Spark against DuckDB, Polars and pandas; ``-- --rows 1M 10M 50M --png cost.png``."""
    session.install(*WIRE, "-e", "packages/laps-analytics[all]", *groups("analytics"))
    session.chdir("benchmarks")
    session.run("python", "-m", "analytics.cost", *session.posargs)


@nox.session
def sim(session: nox.Session) -> None:
    """The long form of the simulator: 5,000 seeds, one network of 1,000 relays, all mutants."""
    session.install(*ALL)
    session.run("laps-relay", "sim", "run", "--seeds", "1:5000", "--jobs", "2", *session.posargs)
    session.run("laps-relay", "sim", "run", "--seeds", "1", "--relays", "1000")
    session.run("laps-relay", "sim", "mutants")


@nox.session
def abuse(session: nox.Session) -> None:
    """Floods and churn against a relay of our own on loopback, with figures."""
    session.install(*ALL)
    session.run("python", "scripts/abuse.py", "churn", *session.posargs)
    session.run("python", "scripts/abuse.py", "initials")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Every target with atheris; ``nox -s fuzz -- --seconds 600 --keep laps2_control``."""
    session.install(*ALL, *groups("fuzz", "test"))
    session.run("python", "scripts/fuzz.py", *session.posargs)


@nox.session
def thorough(session: nox.Session) -> None:
    """The tests with two thousand examples for each property, and fresh randomness."""
    session.install(*ALL, *groups("test"))
    session.run(
        "pytest", "-q", "-n", "auto", "tests/unit", "--timeout=1800", *session.posargs,
        env={"LAPS_HYPOTHESIS": "thorough"},
    )  # fmt: skip


@nox.session(python=["3.11", "3.12", "3.13"])
def pythons(session: nox.Session) -> None:
    """All unit tests of the three packages on each Python that we support."""
    session.install(*ALL, *groups("test"))
    session.run(
        "pytest", "-q", "-n", "auto", "tests/unit", "--ignore=tests/unit/analytics",
        *session.posargs,
    )  # fmt: skip


@nox.session
def analytics(session: nox.Session) -> None:
    """The long tests, a short chain on a cluster and over Connect; how fast a stream is."""
    session.install(*WIRE, "-e", "packages/laps-analytics[all,connect]", *groups("analytics"))
    session.run("pytest", "-q", "-m", "long", "tests/integration/analytics", "tests/unit/analytics")
    session.run("python", "scripts/try_cluster.py", "--short", "local", "submit", "connect")
    session.chdir("benchmarks")
    session.run("python", "-m", "analytics.streaming", *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Ingest to plan, here, with --master, by spark-submit and over Connect: the same rows."""
    session.install(*WIRE, "-e", "packages/laps-analytics[all,connect]", *groups("analytics"))
    session.run("python", "scripts/try_cluster.py", *session.posargs)


@nox.session(name="bench-days")
def bench_days(session: nox.Session) -> None:
    """What a day more costs beside a rebuild, and a month of answers; ``-- --rows 500k``."""
    session.install(*WIRE, "-e", "packages/laps-analytics[all]", *groups("analytics"))
    session.chdir("benchmarks")
    session.run("python", "-m", "analytics.days", *session.posargs)


@nox.session(name="bench-streaming")
def bench_streaming(session: nox.Session) -> None:
    """How fast a stream is; ``-- --rates 1000 2000 5000`` looks for its limit. Wants quiet."""
    session.install(*WIRE, "-e", "packages/laps-analytics[all]", *groups("analytics"))
    session.chdir("benchmarks")
    session.run("python", "-m", "analytics.streaming", *session.posargs)


@nox.session(python="3.12")
def interop(session: nox.Session) -> None:
    """Other people's MoQT against our relay, and their byte vectors."""
    session.install(*ALL, *groups("interop", "test"))
    session.run("pytest", "-q", "tests/interop", *session.posargs)
    session.run("pytest", "-q", "-m", "foreign", "tests/unit", env={"LAPS_REQUIRE_VECTORS": "1"})


@nox.session(name="docs-live")
def docs_live(session: nox.Session) -> None:
    """The documentation, rebuilt and reloaded in the browser while you write."""
    session.install(*WIRE, *groups("docs"), "sphinx-autobuild>=2024.10")
    session.run("sphinx-autobuild", "-n", "docs", "docs/_build/live", *session.posargs)


@nox.session
def changelog(session: nox.Session) -> None:
    """What CHANGELOG.md will say; ``nox -s changelog -- --version 0.2.0`` writes it."""
    session.install(*groups("release"))
    arguments = session.posargs or ["--draft", "--version", "unreleased"]
    session.run("towncrier", "build", *arguments)
