from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from laps_sdk.cli.options import track_of
from laps_sdk.cli.output import NothingCameError, UsageFault, Voice
from laps_sdk.cli.sub import Show, record_of, start_of
from laps_sdk.client.core.objects import Object, capture_time
from laps_sdk.errors import RequestTimeoutError
from laps_wire.moqt.codepoints import ObjectStatus
from testkit.edge_thread import LIMIT, EdgeThread
from testkit.laps_command import laps, laps_process, next_line, one_fault


async def publish(edge: EdgeThread, namespace: str, *payloads: bytes) -> None:
    """The track ``t``: all payloads in group 5 when somebody asks, then its end."""
    async with edge.client() as session:
        track = await session.publish(namespace, "t", announce=True, first=5)
        await track.subscribed()
        for number, payload in enumerate(payloads):
            await track.write(payload, end_of_group=number == len(payloads) - 1)
        await track.end()


def publishing(edge: EdgeThread, namespace: str, *payloads: bytes) -> Future[None]:
    return edge.start(publish(edge, namespace, *payloads))


def subscribe(edge: EdgeThread, namespace: str, *arguments: object) -> tuple[int, bytes, str]:
    ended = laps("sub", edge.url(), namespace, "t", "--ca-file", edge.ca_file, *arguments)
    return ended.exit_code, ended.stdout_bytes, ended.stderr


def test_bytes_as_they_came_until_the_track_ends(edge: EdgeThread) -> None:
    done = publishing(edge, "sub/bytes", b"a\xff", b"", b"b")
    code, out, err = subscribe(edge, "sub/bytes")
    assert (code, out) == (0, b"a\xffb")
    assert "subscribed to sub/bytes t (moqt-18)\n" in err
    assert err.endswith("3 objects, 3 bytes\n")
    done.result(LIMIT)


def test_lines_and_a_count(edge: EdgeThread) -> None:
    done = publishing(edge, "sub/lines", b"a", b"b", b"c")
    assert subscribe(edge, "sub/lines", "-l", "-n", 2, "-q") == (0, b"a\nb\n", "")
    done.result(LIMIT)


def test_json(edge: EdgeThread) -> None:
    done = publishing(edge, "sub/json", b"a", b"\xff")
    code, out, err = subscribe(edge, "sub/json", "--json", "-q", "--draft", 16)
    assert (code, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert first.pop("latency_ms") is not None
    assert first == {"group": 5, "object": 0, "subgroup": 0, "size": 1, "text": "a"}
    assert second["base64"] == "/w=="
    done.result(LIMIT)


@pytest.mark.parametrize(
    ("start", "out"), [("next-group", b"abc"), ("5", b"abc"), ("5.1", b"bc"), ("latest", b"abc")]
)
def test_start(edge: EdgeThread, start: str, out: bytes) -> None:
    namespace = f"sub/start/{start}"
    done = publishing(edge, namespace, b"a", b"b", b"c")
    assert subscribe(edge, namespace, "--start", start, "-q") == (0, out, "")
    done.result(LIMIT)


def test_join_the_past(edge: EdgeThread) -> None:
    async def begin() -> None:
        track = await session.publish("sub/join", "t", first=0)
        for number in range(4):
            await track.write(b"%d" % number, end_of_group=True)
        await edge.until(
            lambda relay: any(
                row.largest is not None and row.largest.group == 3 and "sub-join" in str(row.track)
                for row in relay.relay.tracks()
            )
        )

    session = edge.client()
    edge.do(session.__aenter__())
    try:
        edge.do(begin())
        code, out, err = subscribe(edge, "sub/join", "--join", 2, "-n", 3, "-l", "-q")
        assert (code, sorted(out.split()), err) == (0, [b"1", b"2", b"3"], "")
    finally:
        edge.do(session.close())


def test_nobody_publishes(edge: EdgeThread) -> None:
    ended = laps(
        "sub", edge.url(), "sub/none", "t", "--ca-file", edge.ca_file, "--wait", "0.05", "-q"
    )
    one_fault(ended, 3, "laps sub: sub/none t: no publisher came within 0.05 s")
    ended = laps("sub", edge.url(), "sub/none", "t", "--ca-file", edge.ca_file, "--must-exist")
    one_fault(ended, 1, "laps sub: SUBSCRIBE sub/none t: the relay answered ")
    code, out, err = subscribe(edge, "sub/none", "--for", "0.05")
    assert (code, out) == (0, b"")
    assert err.endswith("0 objects, 0 bytes\n")


def test_it_waits_for_a_publisher(edge: EdgeThread) -> None:
    with laps_process(
        "sub", edge.url(), "sub/later", "t", "-n", 1, LAPS_CA_FILE=edge.ca_file
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"waiting for a publisher of sub/later t\n"
        done = publishing(edge, "sub/later", b"here")
        out, err = process.communicate(b"", LIMIT)
        assert (process.returncode, out) == (0, b"here")
        assert err == b"subscribed to sub/later t (moqt-18)\n1 object, 4 bytes\n"
    done.result(LIMIT)


async def keep_publishing(edge: EdgeThread, namespace: str, process_ended: Future[None]) -> None:
    async with edge.client() as session:
        track = await session.publish(namespace, "t", announce=True)
        while not process_ended.done():
            await track.write(b"tick", end_of_group=True)
            await asyncio.sleep(0.01)
        await track.end()


def test_the_reader_goes(edge: EdgeThread) -> None:
    ended: Future[None] = Future()
    done = edge.start(keep_publishing(edge, "sub/pipe", ended))
    with laps_process(
        "sub", edge.url(), "sub/pipe", "t", "-l", "-q", LAPS_CA_FILE=edge.ca_file
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert next_line(process) == b"tick\n"
        process.stdout.close()
        with contextlib.closing(process.stderr):
            assert process.stderr.read() == b""
        assert process.wait(LIMIT) == 0
        ended.set_result(None)
    done.result(LIMIT)


class Stalling:
    """Objects that stop coming."""

    def __init__(self, *objects: Object, error: Exception | None = None) -> None:
        self._objects = list(objects)
        self._error = error

    async def __anext__(self) -> Object:
        if self._objects:
            return self._objects.pop(0)
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()
        raise AssertionError


def test_objects_that_stop_coming(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    end = Object(0, 1, b"", status=ObjectStatus.END_OF_GROUP)
    objects = Stalling(Object(0, 0, b"only"), end)
    show = Show(Voice(), track_of("demo/x", "t"), wait=0.01)
    with pytest.raises(NothingCameError, match=r"^demo/x t: nothing arrived for 0.01 s$"):
        asyncio.run(show.all(objects))  # type: ignore[arg-type]  # as much of one as it takes
    assert (show.received, show.size) == (1, 4)
    assert capfdbinary.readouterr() == (b"only", b"")


@pytest.mark.parametrize("wait", [None, 30.0])
def test_a_request_of_its_own_that_gets_no_answer(wait: float | None) -> None:
    objects = Stalling(error=RequestTimeoutError("FETCH demo-x--t: no answer"))
    show = Show(Voice(), track_of("demo/x", "t"), wait=wait)
    with pytest.raises(RequestTimeoutError):
        asyncio.run(show.all(objects))  # type: ignore[arg-type]  # as much of one as it takes


def test_start_of() -> None:
    assert start_of("latest") == "latest"
    assert start_of("7") == 7
    with pytest.raises(UsageFault, match="must be latest, next-group, a group"):
        start_of("first")


def test_text_is_text_and_bytes_are_base64() -> None:
    assert record_of(Object(3, 4, "gr\u00fcn".encode())) == {
        "group": 3, "object": 4, "subgroup": 0, "size": 5, "text": "gr\u00fcn",
    }  # fmt: skip
    found = record_of(Object(3, 4, b"\xff\x00", subgroup=None))
    assert found["subgroup"] is None
    assert base64.b64decode(found["base64"]) == b"\xff\x00"
    assert "text" not in found


def test_status_is_named() -> None:
    assert record_of(Object(3, 4, b"", status=ObjectStatus.END_OF_TRACK))["status"] == (
        "END_OF_TRACK"
    )


def test_latency_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert capture_time(()) is None
    monkeypatch.setattr("laps_sdk.client.core.objects.capture_time", lambda _: 99.5)
    assert record_of(Object(0, 0, b"", received_at=100.0))["latency_ms"] == 500.0


@pytest.fixture(scope="module")
def published(edge: EdgeThread) -> Iterator[None]:
    """``fetch/past t`` has two objects in each of the groups 0 to 2; ``fetch/new t`` none yet."""
    session = edge.client()

    async def begin() -> None:
        await session.__aenter__()
        await session.publish("fetch/new", "t")
        track = await session.publish("fetch/past", "t", first=0)
        for number in range(6):
            await track.write(b"%d" % number, end_of_group=number % 2 == 1)
        await edge.until(
            lambda relay: any(
                row.counters.objects_in == 6 for row in relay.relay.tracks() if row.largest
            )
        )

    edge.do(begin())
    yield
    edge.do(session.close())


def fetch(edge: EdgeThread, *arguments: object) -> tuple[int, str, str]:
    ended = laps(
        "fetch", edge.url(), "fetch/past", "t", "--ca-file", edge.ca_file, "-q", *arguments
    )
    return ended.exit_code, ended.stdout, ended.stderr


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        ((), "012345"),
        (("--from", "1"), "2345"),
        (("--from", "1.1", "--to", "2.0"), "34"),
        (("--to", "1"), "0123"),
        (("--to", "0.0"), "0"),
        (("--from", "2", "--to", "99", "-l"), "4\n5\n"),
        (("--count", "2"), "01"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_fetch_ranges(edge: EdgeThread, arguments: tuple[str, ...], out: str) -> None:
    assert fetch(edge, *arguments) == (0, out, "")


@pytest.mark.usefixtures("published")
def test_fetch_json(edge: EdgeThread) -> None:
    code, out, err = fetch(edge, "--from", "1.0", "--to", "1.0", "--json", "--draft", "16")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (record["group"], record["object"], record["text"]) == (1, 0, "2")


@pytest.mark.usefixtures("published")
def test_fetch_remarks(edge: EdgeThread) -> None:
    ended = laps("fetch", edge.url(), "fetch/past", "t", LAPS_CA_FILE=edge.ca_file)
    assert (ended.stdout, ended.stderr) == ("012345", "6 objects, 6 bytes\n")


@pytest.mark.usefixtures("published")
def test_fetch_nothing_to_fetch(edge: EdgeThread) -> None:
    new = laps("fetch", edge.url(), "fetch/new", "t", LAPS_CA_FILE=edge.ca_file)
    one_fault(new, 1, "laps fetch: fetch/new t: nothing has been published yet")
    none = laps("fetch", edge.url(), "fetch/none", "t", LAPS_CA_FILE=edge.ca_file)
    one_fault(none, 1, "TRACK_STATUS fetch/none t: the relay answered DOES_NOT_EXIST")
    none = laps("fetch", edge.url(), "fetch/none", "t", "--to", 3, LAPS_CA_FILE=edge.ca_file)
    one_fault(none, 1, "laps fetch: FETCH fetch/none t: the relay answered ")


@pytest.mark.usefixtures("published")
def test_fetch_a_range_that_ends_before_it_begins(edge: EdgeThread) -> None:
    code, out, err = fetch(edge, "--from", "2", "--to", "1")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
