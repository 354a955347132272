"""Developer errands: what is useful now and then. The gates live in tox.ini."""

from __future__ import annotations

import nox

nox.options.sessions = ["demo"]
nox.options.reuse_existing_virtualenvs = True

WIRE = ("-e", "packages/laps-wire")
ALL = (*WIRE, "-e", "packages/laps-sdk[turbo]", "-e", "packages/laps-relay")


@nox.session
def demo(session: nox.Session) -> None:
    """What ``make demo`` shows."""
    session.install(*WIRE)
    session.run(
        "python", "-m", "laps_wire", "decode", "--conversation", "demo/peering-conversation.jsonl"
    )


@nox.session
def bench(session: nox.Session) -> None:
    """Encode and decode per message kind: messages and bytes a second, as ratios in one run."""
    session.install(*WIRE)
    session.run("python", "benchmarks/wire.py", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Every target with atheris; ``nox -s fuzz -- --seconds 600 --keep laps2_control``."""
    session.install(*ALL, *nox.project.dependency_groups(nox.project.load_toml(), "fuzz", "test"))
    session.run("python", "scripts/fuzz.py", *session.posargs)


@nox.session
def thorough(session: nox.Session) -> None:
    """The tests with two thousand examples for each property, and fresh randomness."""
    session.install(*ALL, *nox.project.dependency_groups(nox.project.load_toml(), "test"))
    session.run(
        "pytest", "-q", "-n", "auto", "tests/unit", "--timeout=1800", *session.posargs,
        env={"LAPS_HYPOTHESIS": "thorough"},
    )  # fmt: skip


@nox.session
def interop(session: nox.Session) -> None:
    """Our codecs against byte vectors made by others (../shared/vectors); fails where absent."""
    session.install(*WIRE, *nox.project.dependency_groups(nox.project.load_toml(), "test"))
    session.run(
        "pytest", "-q", "-m", "foreign", "tests", *session.posargs,
        env={"LAPS_REQUIRE_VECTORS": "1"},
    )  # fmt: skip


@nox.session(name="docs-live")
def docs_live(session: nox.Session) -> None:
    """The documentation, rebuilt and reloaded in the browser while you write."""
    groups = nox.project.dependency_groups(nox.project.load_toml(), "docs")
    session.install(*WIRE, *groups, "sphinx-autobuild>=2024.10")
    session.run("sphinx-autobuild", "-n", "docs", "docs/_build/live", *session.posargs)


@nox.session
def changelog(session: nox.Session) -> None:
    """What CHANGELOG.md will say; ``nox -s changelog -- --version 0.2.0`` writes it."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "release"))
    arguments = session.posargs or ["--draft", "--version", "unreleased"]
    session.run("towncrier", "build", *arguments)
