from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from laps_sdk import Object
from laps_sdk.errors import RequestRefusedError
from testkit.edge_thread import LIMIT, EdgeThread
from testkit.laps_command import laps, laps_process, one_fault


async def heard(edge: EdgeThread, namespace: str) -> list[Object]:
    """All objects of the track ``t``, from before its publisher comes until it ends."""
    async with edge.client() as session:
        while True:
            try:
                async with session.subscribe(namespace, "t") as objects:
                    found = [obj async for obj in objects if not obj.status]
            except RequestRefusedError:
                await asyncio.sleep(0.02)  # nobody publishes it yet
            else:
                return sorted(found, key=lambda obj: obj.location)


def published(
    edge: EdgeThread, namespace: str, *arguments: object, stdin: bytes = b""
) -> list[Object]:
    waiting = edge.start(heard(edge, namespace))
    ended = laps(
        "pub", edge.url(), namespace, "t", "--ca-file", edge.ca_file,
        "--wait-subscriber", LIMIT, *arguments, stdin=stdin,
    )  # fmt: skip
    assert ended.exit_code == 0, ended.output
    assert ended.stdout == ""
    objects = waiting.result(LIMIT)
    said = ended.stderr.splitlines()
    if "-q" not in arguments:
        size = sum(len(obj.payload) for obj in objects)
        assert said == [
            f"publishing {namespace} t (moqt-18)",
            f"{len(objects)} objects, {size:,} bytes",
        ]
    return objects


def test_lines_of_stdin(edge: EdgeThread) -> None:
    objects = published(edge, "pub/lines", stdin=b"one\r\n\ntwo\nthree")
    assert [obj.payload for obj in objects] == [b"one", b"", b"two", b"three"]
    assert len({obj.group for obj in objects}) == 4


def test_chunks_of_stdin(edge: EdgeThread) -> None:
    objects = published(
        edge, "pub/chunks", "--chunk", 3, "--per-group", 2, "--rate", 1000, stdin=b"\n234567\x00"
    )
    assert [obj.payload for obj in objects] == [b"\n23", b"456", b"7\x00"]
    assert [obj.object for obj in objects] == [0, 1, 0]


def test_messages(edge: EdgeThread) -> None:
    objects = published(edge, "pub/messages", "-m", "gr\u00fcn", "-m", "\udcff", "-q")
    assert [obj.payload for obj in objects] == ["gr\u00fcn".encode(), b"\xff"]


def test_files(edge: EdgeThread, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() * 100_000)
    objects = published(edge, "pub/files", "-f", tmp_path / "a", "-f", tmp_path / "b")
    assert [(len(obj.payload), obj.payload[:1]) for obj in objects] == [
        (100_000, b"a"), (100_000, b"b"),
    ]  # fmt: skip


def test_pushed_to_a_relay_that_nobody_asked(edge: EdgeThread) -> None:
    ended = laps(
        "pub", edge.url(), "pub/push", "t", "-m", "a", "-m", "b", "--json",
        "--ca-file", edge.ca_file, "-q", "--linger", "0.01",
    )  # fmt: skip
    assert (ended.exit_code, ended.stderr) == (0, "")
    first, second = map(json.loads, ended.stdout.splitlines())
    assert (first["object"], second["object"]) == (0, 0)
    assert second["group"] == first["group"] + 1


def test_nobody_subscribes(edge: EdgeThread) -> None:
    ended = laps(
        "pub", edge.url(), "pub/lonely", "t", "-m", "x", "-q",
        "--ca-file", edge.ca_file, "--wait-subscriber", "0.05",
    )  # fmt: skip
    one_fault(ended, 3, "laps pub: pub/lonely t: no subscriber came within 0.05 s")


def test_what_does_not_fit_a_datagram(edge: EdgeThread) -> None:
    ended = laps(
        "pub", edge.url(), "pub/large", "t", "-m", "x" * 5000, "-q",
        "--ca-file", edge.ca_file, "--datagrams",
    )  # fmt: skip
    one_fault(ended, 1, "an object of 5000 bytes", "do not fit a datagram")


def test_a_file_that_goes_away(
    edge: EdgeThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    path = tmp_path / "gone"
    ended = laps("pub", edge.url(), "pub/gone", "t", "-f", path, "-q", LAPS_CA_FILE=edge.ca_file)
    one_fault(ended, 1, f"laps pub: {path}: No such file")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_a_signal_ends_it_while_stdin_is_silent(
    edge: EdgeThread, number: signal.Signals, code: int
) -> None:
    namespace = f"pub/signal{code}"
    with laps_process("pub", edge.url(), namespace, "t", LAPS_CA_FILE=edge.ca_file) as process:
        assert process.stderr is not None
        assert process.stdin is not None
        assert process.stderr.readline() == f"publishing {namespace} t (moqt-18)\n".encode()
        # Not before: a relay waits for a publisher some seconds, a process may start slowly.
        waiting = edge.start(heard(edge, namespace))
        edge.do(
            edge.until(
                lambda relay: any(
                    row.subscribers
                    for row in relay.relay.tracks()
                    if row.track.namespace.fields[-1] == b"signal%d" % code
                )
            )
        )
        process.send_signal(number)
        assert process.wait(LIMIT) == code
        assert process.stderr.read() == b""
    assert waiting.result(LIMIT) == []  # the track ended in good order
