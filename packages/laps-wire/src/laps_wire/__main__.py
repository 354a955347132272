"""``python -m laps_wire decode``: what bytes say, field by field.

The only module of this package that does I/O: it reads arguments, files and standard input, prints,
and returns an exit code. Everything else is in :mod:`laps_wire.trace`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from laps_wire.errors import TextFormError
from laps_wire.telemetry.privacy import safe_text
from laps_wire.trace.conversation import (
    Conversation,
    parse_conversations,
    play,
    render_step,
    step_dicts,
)
from laps_wire.trace.decode import Decoded, Status, decode, evidence, guess
from laps_wire.trace.hextext import MAX_BYTES, parse_hex
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.text import PLAIN, Paint, as_dicts, paint_ansi, render

__all__ = ["main"]

USAGE_ERROR: Final = 2
"""The exit code for what is not about the bytes: options, files, text that is not hexadecimal."""

_DESCRIPTION: Final = """\
Print what bytes of LAPS peering, MoQT or QuicR say, field by field: offset, bytes, name, value.

The bytes are hexadecimal text, as arguments or on standard input, or a binary file. Text may have
spaces, colons, 0x, and the offset and character columns of xxd, hexdump -C, tcpdump and Wireshark.
"""

_EPILOG: Final = """\
examples:
  python -m laps_wire decode 0e 01 00
  python -m laps_wire decode --as moqt-16 0x15 0x0002 0x4064
  xxd packet.bin | python -m laps_wire decode
  python -m laps_wire decode --as moqt-18-uni --file stream.bin
  python -m laps_wire decode --json --file control.bin | jq .message
  python -m laps_wire decode --conversation demo/peering-conversation.jsonl

protocols:
{protocols}

Without --as all of them are tried, and the best fit is shown with the others that fit named. Short
inputs often fit several.

exit codes:
  0  every byte was understood
  1  bad bytes: what was read is shown, and where and why it stopped
  2  usage: an unknown option, a file that cannot be read, text that is not hexadecimal
  3  incomplete: the bytes are the beginning of a message

Colours are used on a terminal, and never if NO_COLOR is set.
"""


class _UsageError(Exception):
    """What the user gave cannot be read; the message says what and where."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    arguments = _parser().parse_args(argv)
    # A terminal that cannot show a character gets its escape instead of a traceback.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except _UsageError as error:
        print(f"python -m laps_wire decode: {error}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader of our output has seen enough ("| head"); nothing is left to be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m laps_wire", description="Tools for the bytes of LAPS."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    width = max(map(len, PROTOCOLS))
    table = "\n".join(f"  {name:{width}}  {p.title}" for name, p in PROTOCOLS.items())
    command = commands.add_parser(
        "decode",
        help="print what bytes say, field by field",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(protocols=table),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("hex", nargs="*", metavar="HEX", help="the bytes; default: standard input")
    source = command.add_mutually_exclusive_group()
    source.add_argument("--file", metavar="PATH", help="read a binary file; - is standard input")
    source.add_argument(
        "--conversation",
        metavar="PATH",
        help="read a captured conversation (JSON Lines with dir, t, proto, stream, hex)",
    )
    command.add_argument(
        "--as",
        dest="protocol",
        choices=["auto", *PROTOCOLS],
        default="auto",
        metavar="PROTOCOL",
        help="what the bytes are (see below); default: auto",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object per message")
    command.add_argument(
        "--bytes", action="store_true", help="show the bytes of a conversation as well"
    )
    command.add_argument(
        "--color",
        choices=["auto", "always", "never"],
        default="auto",
        help="when to use colours; default: auto, on a terminal",
    )
    command.set_defaults(run=_decode, parser=command)
    return parser


# Commands


def _decode(arguments: argparse.Namespace) -> int:
    if arguments.conversation is not None:
        if arguments.hex or arguments.protocol != "auto":
            arguments.parser.error("--conversation takes neither HEX nor --as")
        return _conversations(arguments)
    if arguments.bytes:
        arguments.parser.error("--bytes belongs to --conversation")
    data = _input(arguments)
    if not data:
        raise _UsageError("the input holds no bytes")
    others: list[Decoded] = []
    if arguments.protocol == "auto":
        decoded, *others = guess(PROTOCOLS.values(), data)
    else:
        decoded = decode(PROTOCOLS[arguments.protocol], data)
    also = [other.protocol.name for other in others if evidence(other) > 1]
    if arguments.json:
        guessed = {"guessed": True, "also_fits": also} if others else {}
        _print_json({**plain, **guessed} for plain in as_dicts(decoded))
    else:
        paint = _paint(arguments.color)
        if others:
            print(paint("dim", _guess_line(decoded, also)))
        for line in render(decoded, paint):
            print(line)
    return decoded.status.value


def _guess_line(best: Decoded, also: list[str]) -> str:
    if evidence(best) < 2:
        return f"guess: nothing fits, {best.protocol.name} comes closest"
    rest = f"; also fits: {', '.join(also)}" if also else ""
    return f"guess: {best.protocol.name}{rest}"


def _conversations(arguments: argparse.Namespace) -> int:
    lines = _text(_read_file(arguments.conversation), arguments.conversation).splitlines()
    try:
        conversations = parse_conversations(lines, PROTOCOLS)
    except TextFormError as error:
        raise _UsageError(f"{arguments.conversation}: {error}") from None
    if not any(conversation.chunks for conversation in conversations):
        raise _UsageError(f"{arguments.conversation}: the file holds no bytes")
    worst = Status.OK
    for index, conversation in enumerate(conversations):
        if conversation.title and not arguments.json:
            print(
                "\n" * bool(index) + _paint(arguments.color)("name", safe_text(conversation.title))
            )
        status = _play(conversation, arguments)
        # Bad bytes are worse than missing ones, whatever the numbers say.
        worst = status if worst is not Status.BAD and status is not Status.OK else worst
    return worst.value


def _play(conversation: Conversation, arguments: argparse.Namespace) -> Status:
    """Print one conversation; gives how it ended."""
    paint = _paint(arguments.color)
    status = Status.OK
    waiting: set[tuple[str, str, int | None]] = set()
    for step in play(conversation):
        if step.decoded.status is not Status.OK and status is not Status.BAD:
            status = step.decoded.status
        key = (step.chunk.direction, step.chunk.protocol.name, step.chunk.stream)
        waiting.discard(key)
        if step.waits is not None:
            waiting.add(key)
        if arguments.json:
            _print_json(step_dicts(step))
        else:
            print()
            for line in render_step(step, conversation, paint, with_bytes=arguments.bytes):
                print(line)
    return Status.INCOMPLETE if waiting and status is Status.OK else status


# Input and output


def _input(arguments: argparse.Namespace) -> bytes:
    """The bytes, wherever they are."""
    if arguments.file is not None:
        if arguments.hex:
            arguments.parser.error("give either HEX or --file")
        return _read_file(arguments.file)
    if arguments.hex:
        return _hex(" ".join(arguments.hex), "HEX")
    if sys.stdin.isatty():
        arguments.parser.error("no bytes: give HEX, --file, or text on standard input")
    return _hex(_text(_read_file("-", 8 * MAX_BYTES), "-"), "standard input")


def _hex(text: str, what: str) -> bytes:
    try:
        return parse_hex(text)
    except TextFormError as error:
        raise _UsageError(f"{what}: {error}") from None


def _read_file(path: str, limit: int = MAX_BYTES) -> bytes:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise _UsageError(f"{path}: {error.strerror}") from None
    if len(data) > limit:
        raise _UsageError(f"{path}: more than {limit} bytes")
    return data


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        name = "standard input" if path == "-" else path
        hint = "; for binary input use --file -" if path == "-" else ""
        raise _UsageError(f"{name}: byte {error.start} is not text{hint}") from None


def _print_json(plains: Iterable[dict[str, Any]]) -> None:
    for plain in plains:
        print(json.dumps(plain, separators=(",", ":")))


def _paint(when: str) -> Paint:
    """Colours: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    if when == "always":
        return paint_ansi
    if when == "never" or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return PLAIN
    return paint_ansi if sys.stdout.isatty() else PLAIN


if __name__ == "__main__":
    sys.exit(main())
