"""The command: arguments, files, standard input, exit codes; output to the character."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laps_wire import __main__ as command
from laps_wire.__main__ import main
from laps_wire.trace.protocols import PROTOCOLS

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "demo" / "peering-conversation.jsonl"

# The first message that a real C++ relay sent.
CONNECT = "0100010000002202b97e0ef037b17f89010772656c61792d6100000000000000000000000000000000"

CONNECT_TEXT = """\
laps-cpp: CONNECT, 41 bytes
   0  01                       version: 1
   1  00 01                    type: 1 (CONNECT)
   3  00 00 00 22              length: 34
   7                           CONNECT
   7  02                         mode: 2 (BOTH)
   8                             node_info
   8  b9 7e 0e f0 37 b1 7f 89      node_id: 0xb97e0ef037b17f89 (47486.3824:14257.32649)
  16  01                           node_type: 1 (EDGE)
  17  07                           contact.length: 7
  18  72 65 6c 61 79 2d 61         contact: "relay-a"
  25  00 00 00 00 00 00 00 00      longitude: 0.0
  33  00 00 00 00 00 00 00 00      latitude: 0.0
  41                               path
"""


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Stdin(io.TextIOWrapper):
    """Standard input with given bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


Capture = pytest.CaptureFixture[str]


def test_bytes_as_arguments(capsys: Capture) -> None:
    assert main(["decode", "--as", "laps-cpp", CONNECT]) == 0
    assert capsys.readouterr() == (CONNECT_TEXT, "")
    assert main(["decode", "--as", "laps-cpp", "0x01", "00:01", CONNECT[6:]]) == 0
    assert capsys.readouterr().out == CONNECT_TEXT


def test_bytes_on_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes.fromhex(CONNECT)
    dump = "".join(
        f"{at:08x}: {data[at : at + 16].hex(' ', 2)}  ................\n" for at in range(0, 40, 16)
    )
    monkeypatch.setattr(sys, "stdin", Stdin(dump.encode()))
    assert main(["decode", "--as", "laps-cpp"]) == 0
    assert capsys.readouterr().out == CONNECT_TEXT


def test_a_binary_file(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "connect.bin"
    path.write_bytes(bytes.fromhex(CONNECT))
    assert main(["decode", "--as", "laps-cpp", "--file", str(path)]) == 0
    assert capsys.readouterr().out == CONNECT_TEXT
    monkeypatch.setattr(sys, "stdin", Stdin(bytes.fromhex(CONNECT)))
    assert main(["decode", "--as", "laps-cpp", "--file", "-"]) == 0
    assert capsys.readouterr().out == CONNECT_TEXT


def test_a_guess_says_so(capsys: Capture) -> None:
    assert main(["decode", CONNECT]) == 0
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert first == "guess: laps-cpp; also fits: quicr-datagram"
    assert rest == CONNECT_TEXT


def test_a_guess_without_rivals(capsys: Capture) -> None:
    assert main(["decode", "af00000a80f10772656c61792d61"]) == 0
    assert capsys.readouterr().out.startswith("guess: moqt-18; also fits: moqt-18-uni")
    assert main(["decode", "1e 02 04 00"]) == 0
    assert capsys.readouterr().out.startswith("guess: laps-2\nlaps-2: SYNC_REQUEST, 4 bytes\n")


def test_nothing_fits(capsys: Capture) -> None:
    assert main(["decode", "ff"]) in {1, 3}
    assert capsys.readouterr().out.startswith("guess: nothing fits, ")


def test_bad_bytes(capsys: Capture) -> None:
    bad = CONNECT[:14] + "07" + CONNECT[16:]
    assert main(["decode", "--as", "laps-cpp", bad]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[5:] == [
        "   7  07                         mode: 7",
        "      ^^ bad: CONNECT.mode: 7 is not one of: 0 CONTROL, 1 DATA, 2 BOTH",
        "   8                           33 byte(s) not read",
    ]


def test_incomplete_bytes(capsys: Capture) -> None:
    assert main(["decode", "--as", "laps-cpp", CONNECT[:42]]) == 3
    out = capsys.readouterr().out
    assert out.startswith("laps-cpp: CONNECT, cut off\n")
    assert out.splitlines()[-2:] == [
        "  18  72 65 6c",
        (
            "      ^^^^^^^^ incomplete: CONNECT.node_info.contact: the input ends here,"
            " at least 20 more byte(s) belong to it"
        ),
    ]


def test_json(capsys: Capture) -> None:
    assert main(["decode", "--json", "--as", "laps-cpp", CONNECT, CONNECT]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["message"], first["offset"], second["offset"]) == ("CONNECT", 0, 41)
    assert "guessed" not in first
    by_path = {field["path"]: field for field in first["fields"]}
    assert by_path["CONNECT.node_info.node_id"] == {
        "path": "CONNECT.node_info.node_id",
        "offset": 8,
        "length": 8,
        "hex": "b97e0ef037b17f89",
        "value": 0xB97E0EF037B17F89,
        "note": "47486.3824:14257.32649",
    }
    assert by_path["CONNECT.node_info.contact"]["text"] == "relay-a"


def test_json_of_a_guess(capsys: Capture) -> None:
    assert main(["decode", "--json", CONNECT]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["guessed"], plain["also_fits"]) == (True, ["quicr-datagram"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["0g"], "HEX: line 1, column 2: 'g' is not a hexadecimal digit"),
        (["01", "2"], "HEX: line 1, column 4: an odd number of hexadecimal digits (1)"),
        (["--file", "does-not-exist.bin"], "does-not-exist.bin: No such file or directory"),
        (["--file", "."], ".: Is a directory"),
        (["--conversation", "does-not-exist"], "does-not-exist: No such file or directory"),
        (["# nothing"], "the input holds no bytes"),
    ],
)
def test_input_that_cannot_be_read(arguments: list[str], reason: str, capsys: Capture) -> None:
    assert main(["decode", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"python -m laps_wire decode: {reason}")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["decode", "--as", "smtp", "00"], "invalid choice: 'smtp'"),
        (["decode", "--file", "x", "00"], "give either HEX or --file"),
        (["decode", "--file", "x", "--conversation", "y"], "not allowed with argument"),
        (["decode", "--conversation", "x", "00"], "--conversation takes neither HEX nor --as"),
        (["decode", "--conversation", "x", "--as", "quicr"], "takes neither HEX nor --as"),
        (["decode", "--bytes", "00"], "--bytes belongs to --conversation"),
    ],
)
def test_usage(arguments: list[str], reason: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert reason in capsys.readouterr().err


def test_a_terminal_as_input_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(SystemExit) as caught:
        main(["decode"])
    assert caught.value.code == 2
    assert "no bytes: give HEX, --file, or text on standard input" in capsys.readouterr().err


def test_binary_on_standard_input_without_an_option(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"01\xff"))
    assert main(["decode"]) == 2
    expected = "standard input: byte 2 is not text; for binary input use --file -\n"
    assert capsys.readouterr().err.endswith(expected)


def test_input_is_bounded(monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(11))
    monkeypatch.setattr(command._read_file, "__defaults__", (10,))
    assert main(["decode", "--file", str(path)]) == 2
    assert capsys.readouterr().err.endswith("large.bin: more than 10 bytes\n")


def test_help(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["decode", "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    for name, protocol in PROTOCOLS.items():
        assert f"  {name} " in out
        assert protocol.title in out
    for words in ("examples:", "exit codes:", "NO_COLOR", "--conversation", "xxd"):
        assert words in out


def test_the_examples_of_the_help_work(capsys: Capture) -> None:
    lines = [line.split() for line in command._EPILOG.splitlines() if "python -m laps_wire" in line]
    tried = 0
    for words in lines:
        arguments = words[words.index("laps_wire") + 1 :]
        if words[0] == "python" and "--file" not in arguments:
            arguments = [str(DEMO) if word.startswith("demo/") else word for word in arguments]
            assert main(arguments) == 0, words
            tried += 1
    assert tried >= 3
    capsys.readouterr()


# Colours


@pytest.mark.parametrize(
    ("terminal", "environment", "option", "coloured"),
    [
        (True, {}, "auto", True),
        (False, {}, "auto", False),
        (True, {"NO_COLOR": "1"}, "auto", False),
        (True, {"NO_COLOR": ""}, "auto", True),  # the convention: only if it is not empty
        (True, {"TERM": "dumb"}, "auto", False),
        (True, {}, "never", False),
        (False, {"NO_COLOR": "1"}, "always", True),
    ],
)
def test_colours(
    terminal: bool,
    environment: dict[str, str],
    option: str,
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    output = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["decode", "--as", "laps-cpp", "--color", option, CONNECT]) == 0
    assert ("\x1b[" in output.getvalue()) is coloured


# Conversations


def conversation(path: Path, *chunks: Any) -> str:
    lines = [
        json.dumps(
            chunk
            if isinstance(chunk, dict)
            else {"dir": ">", "t": 0, "proto": "laps-2", "stream": 0, "hex": chunk}
        )
        for chunk in chunks
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_the_demo(capsys: Capture) -> None:
    assert main(["decode", "--conversation", str(DEMO)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Two relays meet over laps-2\n\n     0.000  seattle -> london  stream 0")
    assert "\n\nA C++ LAPS relay dials ours\n" in out
    for name in ("CONNECT", "CHALLENGE", "PROOF", "SNS_ADVERTISE", "SUBSCRIBE_INFO_ADVERTISED"):
        assert name in out
    assert 'object payload: "goal! 2:1"' in out


def test_the_demo_is_what_its_script_writes() -> None:
    written = DEMO.read_text(encoding="utf-8")
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, scripts.demo_conversation as d\nfor x in d.lines(): print(json.dumps(x))",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == written, "run python scripts/demo_conversation.py"


def test_the_demo_as_json_and_with_bytes(capsys: Capture) -> None:
    assert main(["decode", "--json", "--conversation", str(DEMO)]) == 0
    plains = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert plains[0]["message"] == "CONNECT"
    assert {"t", "dir", "stream"} <= set(plains[0])
    assert main(["decode", "--bytes", "--conversation", str(DEMO)]) == 0
    assert (
        "\n                 0  02                       type: 2 (CONNECT)"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        (["0e0100"], 0),
        (["0e01", "00"], 0),
        (["0e01"], 3),
        (["3e00"], 1),
        (["0e01", {"title": "next"}, "0e0100"], 3),
        (["3e00", {"title": "next"}, "0e01"], 1),
        (["0e01", {"title": "next"}, "3e00"], 1),
        (["3e00", "0e0100"], 1),
        ([{"dir": ">", "t": 0, "proto": "moqt-16-uni", "hex": "15"}], 3),
    ],
)
def test_how_a_conversation_ends(
    chunks: list[Any], status: int, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["decode", "--conversation", conversation(tmp_path / "c", *chunks)]) == status
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "the file holds no bytes"),
        (b'{"title": "x"}', "the file holds no bytes"),
        (b"{", "line 1, column 2: "),
        (b"\xff", "byte 0 is not text\n"),
    ],
)
def test_a_conversation_that_cannot_be_read(
    text: bytes, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(text)
    assert main(["decode", "--conversation", str(path)]) == 2
    assert f"{path}: {reason}" in capsys.readouterr().err


# As a process


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "laps_wire", *arguments],
        cwd=ROOT,
        capture_output=True,
        check=False,
        **options,
    )


def test_as_a_process() -> None:
    ended = run("decode", "--as", "laps-cpp", input=CONNECT.encode())
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode() == CONNECT_TEXT


def test_a_reader_that_has_seen_enough() -> None:
    """``| head`` closes the pipe: no traceback, and no failure."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        ended = subprocess.run(
            [sys.executable, "-m", "laps_wire", "decode", "--conversation", str(DEMO)],
            cwd=ROOT,
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_characters_that_a_terminal_cannot_show() -> None:
    note = json.dumps({"dir": ">", "t": 0, "proto": "laps-2", "hex": "0e0100", "note": "é"})
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = run("decode", "--conversation", "/dev/stdin", input=note.encode(), env=environment)
    assert ended.returncode == 0
    assert rb"# \xe9" in ended.stdout
