from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from testkit.edge_thread import EdgeThread
from testkit.laps_command import laps, one_fault


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
def test_ranges(edge: EdgeThread, arguments: tuple[str, ...], out: str) -> None:
    assert fetch(edge, *arguments) == (0, out, "")


@pytest.mark.usefixtures("published")
def test_json(edge: EdgeThread) -> None:
    code, out, err = fetch(edge, "--from", "1.0", "--to", "1.0", "--json", "--draft", "16")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (record["group"], record["object"], record["text"]) == (1, 0, "2")


@pytest.mark.usefixtures("published")
def test_remarks(edge: EdgeThread) -> None:
    ended = laps("fetch", edge.url(), "fetch/past", "t", LAPS_CA_FILE=edge.ca_file)
    assert (ended.stdout, ended.stderr) == ("012345", "6 objects, 6 bytes\n")


@pytest.mark.usefixtures("published")
def test_nothing_to_fetch(edge: EdgeThread) -> None:
    new = laps("fetch", edge.url(), "fetch/new", "t", LAPS_CA_FILE=edge.ca_file)
    one_fault(new, 1, "laps fetch: fetch/new t: nothing was published yet")
    none = laps("fetch", edge.url(), "fetch/none", "t", LAPS_CA_FILE=edge.ca_file)
    one_fault(none, 1, "TRACK_STATUS fetch/none t: the relay answered DOES_NOT_EXIST")
    none = laps("fetch", edge.url(), "fetch/none", "t", "--to", 3, LAPS_CA_FILE=edge.ca_file)
    one_fault(none, 1, "laps fetch: FETCH fetch/none t: the relay answered ")


@pytest.mark.usefixtures("published")
def test_a_range_that_ends_before_it_begins(edge: EdgeThread) -> None:
    code, out, err = fetch(edge, "--from", "2", "--to", "1")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
