from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from laps_relay.telemetry.logs import Names, configure, set_level
from laps_wire.reports import hashed_id
from testkit.logs import restored_logging
from testkit.relay_views import TRACK


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_one_event_is_one_line_of_json() -> None:
    out = io.StringIO()
    configure("auto", "info", out).info("hello", session=1, sizes=[1, 2.5, None], ok=True)
    (line,) = lines(out)
    assert line["event"] == "hello"
    assert line["level"] == "info"
    assert line["session"] == 1
    assert line["sizes"] == [1, 2.5, None]
    assert line["timestamp"].endswith("Z")


def test_words_of_strangers_cannot_make_lines_or_drive_terminals() -> None:
    for form in ("json", "console"):
        out = io.StringIO()
        logger = configure(form, "info", out)
        logger.info("closed", reason="a\nb\x1b[2J\u202e", raw=b"\xff\x00", long="x" * 9999)
        text = out.getvalue()
        assert text.count("\n") == 1
        assert "\x1b[2J" not in text
        assert "\u202e" not in text
        assert len(text) < 2000


def test_levels_and_their_change() -> None:
    out = io.StringIO()
    logger = configure("json", "warning", out)
    logger.info("quiet")
    logger.warning("heard")
    set_level("debug")
    logger.debug("now too")
    assert [line["event"] for line in lines(out)] == ["heard", "now too"]


def test_libraries_are_heard_in_the_same_form() -> None:
    out = io.StringIO()
    configure("json", "info", io.StringIO())
    configure("json", "info", out)
    library = logging.getLogger("some.library")
    library.info("all is well")
    library.warning("from %s", "elsewhere")
    set_level("debug")
    library.debug("not this")
    set_level("info")
    logging.getLogger("other").info("nor this")
    try:
        raise ValueError("inside")
    except ValueError:
        library.exception("failed")
    library.critical("very bad")
    first, second, third = lines(out)
    assert (first["event"], first["library"]) == ("from elsewhere", "some.library")
    assert second["level"] == "error"
    assert "inside" in second["exception"]
    assert third["level"] == "error"


def test_what_libraries_say_when_all_is_well_is_for_debugging() -> None:
    out = io.StringIO()
    configure("json", "debug", out)
    logging.getLogger("some.library").info("negotiated")
    assert [line["event"] for line in lines(out)] == ["negotiated"]


def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    with open("/dev/full", "w", encoding="ascii", buffering=1) as full:  # noqa: PTH123
        logger = configure("json", "info", full)
        logger.info("lost")
        logging.getLogger("some.library").error("lost too")
        with contextlib.suppress(OSError):
            full.close()
    logger.info("closed")


def test_a_traceback_keeps_its_end() -> None:
    out = io.StringIO()
    logger = configure("json", "info", out)

    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        raise ValueError("the end")

    try:
        deep(60)
    except ValueError:
        logger.exception("failed")
    (line,) = lines(out)
    assert line["exception"].endswith("ValueError: the end")


def test_names_are_hashed_unless_told_otherwise() -> None:
    names = Names()
    assert len(names.hashed(TRACK)) == 16
    assert names.logged(TRACK) == names.hashed(TRACK)
    assert Names(plain=True).logged(TRACK) == str(TRACK)
    assert Names(plain=True).hashed(TRACK) != str(TRACK)


def test_one_key_makes_one_hash() -> None:
    assert Names(b"key").hashed(TRACK) == Names(b"key").hashed(TRACK)
    assert Names(b"key").hashed(TRACK) != Names(b"other").hashed(TRACK)
    assert Names().hashed(TRACK) != Names().hashed(TRACK)
    assert Names(b"key").hashed_text("c") == Names(b"key").hashed_text("c")
    assert Names(b"key").hashed_text("c") != Names(b"other").hashed_text("c")
    # Whoever collects reports elsewhere, and has the key, gives an id the same hash.
    assert Names(b"key").hashed_text("c") == hashed_id(b"key", "c")
    assert len(Names().hashed_text("\u00fc" * 128)) == 16
    assert Names(b"key").hashed(TRACK.namespace) != Names(b"key").hashed(TRACK)
