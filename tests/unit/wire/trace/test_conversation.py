"""Conversations: chunks of streams, put together and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laps_wire.errors import TextFormError
from laps_wire.trace import conversation as module
from laps_wire.trace.conversation import (
    Conversation,
    parse_conversations,
    play,
    render_step,
    step_dicts,
)
from laps_wire.trace.decode import Status
from testkit.trace import ALL, HELLO

CHUNK: dict[str, Any] = {
    "dir": ">",
    "t": 0.25,
    "proto": "greet",
    "stream": 0,
    "hex": HELLO.hex(),
    "note": "first",
}


def parse(*plains: dict[str, Any]) -> Conversation:
    (conversation,) = parse_conversations([json.dumps(plain) for plain in plains], ALL)
    return conversation


def shown(conversation: Conversation, *, with_bytes: bool = False) -> list[str]:
    return [
        line
        for step in play(conversation)
        for line in render_step(step, conversation, with_bytes=with_bytes)
    ]


def test_a_file() -> None:
    (conversation,) = parse_conversations(
        [
            '{"title": "Two meet", "left": "a", "right": "b", "later": 1}',
            "",
            json.dumps(CHUNK),
            '{"dir": "<", "t": 1, "proto": "datagram", "hex": "02 6162"}',
        ],
        ALL,
    )
    assert (conversation.title, conversation.left, conversation.right) == ("Two meet", "a", "b")
    first, second = conversation.chunks
    assert (first.line, first.direction, first.time, first.stream) == (3, ">", 0.25, 0)
    assert (first.protocol.name, first.data, first.note) == ("greet", HELLO, "first")
    assert (second.line, second.stream, second.note, second.data) == (4, None, "", b"\x02ab")


def test_several_conversations_in_one_file() -> None:
    lines = [json.dumps(CHUNK), '{"left": "ann"}', json.dumps(CHUNK), json.dumps(CHUNK), "{}"]
    scenes = parse_conversations(lines, ALL)
    assert [(scene.left, len(scene.chunks)) for scene in scenes] == [
        ("left", 1),
        ("ann", 2),
        ("left", 0),
    ]
    assert parse_conversations([], ALL) == ()


def test_a_heading_is_not_needed() -> None:
    conversation = parse(CHUNK)
    assert (conversation.title, conversation.left, conversation.right) == ("", "left", "right")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", r"line 2, column 2: "),
        ("[1]", r"line 2: not an object in braces"),
        ("[" * 100_000, r"line 2: a number or a nesting beyond all measure"),
        ("1" * 5000, r"line 2: a number or a nesting beyond all measure"),
        ('{"hex": ""}', r"line 2: 'dir' is missing"),
        ('{"dir": ">", "proto": "greet", "t": 0}', r"line 2: 'hex' is missing"),
        ({"dir": "="}, r"line 2: 'dir' is '=', not '>' or '<'"),
        ({"dir": 7}, r"line 2: 'dir' is 7, not a text"),
        ({"proto": "smtp"}, r"line 2: 'proto' is 'smtp', not one of: greet, unit, datagram"),
        ({"t": "soon"}, r"line 2: 't' is not a number of seconds"),
        ({"t": True}, r"line 2: 't' is not a number of seconds"),
        ({"t": float("nan")}, r"line 2: 't' is not a number of seconds"),
        ({"stream": "0"}, r"line 2: 'stream' is not a number"),
        ({"stream": True}, r"line 2: 'stream' is not a number"),
        ({"hex": "0"}, r"line 2: 'hex': line 1, column 1: an odd number"),
        ({"hex": 7}, r"line 2: 'hex' is 7, not a text"),
        ({"note": []}, r"line 2: 'note' is \[\], not a text"),
    ],
)
def test_faults_say_what_and_on_which_line(line: str | dict[str, Any], reason: str) -> None:
    text = line if isinstance(line, str) else json.dumps({**CHUNK, **line})
    with pytest.raises(TextFormError, match=reason):
        parse_conversations([json.dumps(CHUNK), text], ALL)


def test_a_bad_heading() -> None:
    with pytest.raises(TextFormError, match="line 1: 'title' is 7, not a text"):
        parse_conversations(['{"title": 7}'], ALL)


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2 * len(HELLO))
    assert len(parse(CHUNK, CHUNK).chunks) == 2
    with pytest.raises(TextFormError, match="line 3: more than 22 bytes in all"):
        parse(CHUNK, CHUNK, CHUNK)


def test_what_is_said() -> None:
    back = {"dir": "<", "t": 1, "proto": "datagram", "hex": "02 6162"}
    conversation = parse({"title": "T", "left": "ann", "right": "bob"}, CHUNK, back)
    assert shown(conversation) == [
        "     0.250  ann -> bob  stream 0  greet  GREET",
        "              # first",
        "              words",
        '                [0]: "hi"',
        '                [1]: "you"',
        "              mood: 1 (KEEN)",
        "     1.000  bob -> ann  datagram  datagram  bytes",
        "              size: 2",
        '              content: "ab"',
    ]


def test_with_bytes() -> None:
    lines = shown(parse({**CHUNK, "note": ""}), with_bytes=True)
    assert lines[1] == "              greet: GREET, 11 bytes"
    assert lines[2] == "                 0  01                       type: 1 (GREET)"


def test_several_messages_in_one_chunk() -> None:
    conversation = parse({**CHUNK, "hex": (HELLO * 2).hex(), "note": ""})
    lines = shown(conversation)
    assert lines[0].endswith("GREET, GREET")
    assert lines.count("              GREET") == 2
    blank = shown(conversation, with_bytes=True)
    assert "" in blank


def test_messages_that_are_cut_are_put_together() -> None:
    """By direction, protocol and stream, whatever comes between."""
    other = {**CHUNK, "stream": 4}
    back = {**CHUNK, "dir": "<"}
    conversation = parse(
        {**CHUNK, "hex": HELLO[:4].hex()},
        {**other, "hex": HELLO[:1].hex()},
        {**back, "hex": HELLO.hex()},
        {**CHUNK, "hex": (HELLO[4:] + HELLO[:2]).hex()},
        {**other, "hex": HELLO[1:].hex()},
    )
    steps = list(play(conversation))
    assert [len(step.decoded.messages) for step in steps] == [0, 0, 1, 1, 1]
    assert [step.waits.missing if step.waits else 0 for step in steps] == [7, 1, 0, 9, 0]
    assert all(step.decoded.status is Status.OK for step in steps)
    assert shown(conversation)[:3] == [
        "     0.250  left -> right  stream 0  greet",
        "              # first",
        "              ... 7 more byte(s) to come",
    ]


def test_bad_bytes_are_shown_and_the_stream_begins_again() -> None:
    conversation = parse({**CHUNK, "hex": "09"}, CHUNK)
    bad, good = play(conversation)
    assert bad.decoded.status is Status.BAD
    assert good.decoded.status is Status.OK
    assert any("^^ bad: type: nobody says 9" in line for line in shown(conversation))


def test_a_unit_that_is_cut_stays_cut() -> None:
    (step,) = play(parse({**CHUNK, "proto": "unit", "hex": "0261"}))
    assert (step.decoded.status, step.waits) == (Status.INCOMPLETE, None)


def test_as_data() -> None:
    (step,) = play(parse(CHUNK))
    (plain,) = step_dicts(step)
    assert list(plain)[:5] == ["t", "dir", "stream", "protocol", "message"]
    assert (plain["t"], plain["dir"], plain["stream"]) == (0.25, ">", 0)


def test_names_and_notes_are_escaped() -> None:
    conversation = parse({"left": "\x1b[2J" + "x" * 50}, {**CHUNK, "note": "a\nb"})
    lines = shown(conversation)
    assert all(line.isprintable() for line in lines)
    assert lines[1] == r"              # a\nb"
