from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Self

import pytest
import typer
from typer.testing import CliRunner

from laps_sdk.cli.options import Link, as_typed, dials, location_of, namespace_of, track_of
from laps_sdk.cli.output import UsageFault, Voice
from laps_sdk.client.core.objects import track_path
from laps_sdk.errors import RequestError, RequestTimeoutError
from laps_wire.errors import TextFormError
from laps_wire.names import FullTrackName, Namespace
from testkit.laps_command import laps, one_fault

URL = "moqt://127.0.0.1:1"


def test_a_command_that_dials_gets_the_options_of_a_connection() -> None:
    seen: list[tuple[Link, str, int]] = []

    @dials
    def look(link: Link, *, what: str, times: int = 2) -> None:
        """Look at it."""
        seen.append((link, what, times))

    assert look.__doc__ == "Look at it."
    assert list(inspect.signature(look).parameters) == [
        "url", "what", "times", "ca_file", "pin", "insecure", "token_file", "transport", "draft",
        "timeout",
    ]  # fmt: skip
    app = typer.Typer()
    app.command()(look)
    run = CliRunner().invoke
    assert run(app, [URL, "--times", "3"]).exit_code == 2
    environment = {"LAPS_PIN": "ab", "LAPS_TIMEOUT": "2.5", "LAPS_INSECURE": "0"}
    arguments = [URL, "here", "--times", "3", "--draft", "16", "--ca-file", "x.pem"]
    assert run(app, arguments, env=environment).exit_code == 0
    link = Link(url=URL, ca_file=Path("x.pem"), pin="ab", draft="16", timeout=2.5)
    assert seen == [(link, "here", 3)]


def test_faults_of_a_command_carry_its_name() -> None:
    @dials
    def look(link: Link) -> None:
        raise UsageFault(f"not {link.url}")

    app = typer.Typer()
    app.command()(look)
    ended = CliRunner().invoke(app, [URL])
    assert (ended.exit_code, ended.stderr) == (2, f"laps look: not {URL}\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "ftp://x"}, "neither 'moqt' nor 'https'"),
        ({"url": "moqt://relay.example:99999"}, "a port is 1 to 65535"),
        ({"transport": "udp"}, "--transport udp: must be one of aioquic, aioquic-stock, qh3"),
        ({"draft": "17"}, "--draft 17: must be one of 18, 16"),
        ({"pin": "abcd"}, "--pin 'abcd': must be the 64 hex digits"),
        ({"ca_file": Path("/nowhere/ca.pem")}, "--ca-file /nowhere/ca.pem: no such file"),
        ({"token_file": Path("/nowhere/t")}, "--token-file /nowhere/t: No such file"),
        ({"insecure": True, "pin": "ab" * 32}, "omit --ca-file and --pin"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object], words: str) -> None:
    arguments = {"url": URL, **options}
    with pytest.raises((UsageFault, TextFormError)) as fault:
        Link(**arguments).session()  # type: ignore[arg-type]  # as varied as their names
    assert words in str(fault.value)


@pytest.mark.parametrize("draft", ["16", "moqt-16", "18"])
def test_a_draft_is_a_number_or_an_alpn(draft: str) -> None:
    assert Link(url=URL, draft=draft).session().address.port == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "the file is empty"), (b"\xff\xfe", "must be base64url"), (b"a\nb", "base64url")],
)
def test_token_files_without_a_token(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageFault, match=words):
        Link(url=URL, token_file=file).session()


def test_tokens_come_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("abc\n")
    monkeypatch.setenv("LAPS_TOKEN", "othe")
    assert Link(url=URL, token_file=file)._token() == "abc"
    assert Link(url=URL)._token() == "othe"
    monkeypatch.setenv("LAPS_TOKEN", "n\u00f6")
    with pytest.raises(UsageFault, match=r"LAPS_TOKEN: .* must be base64url"):
        Link(url=URL).session()
    monkeypatch.delenv("LAPS_TOKEN")
    assert Link(url=URL)._token() is None


@pytest.mark.parametrize(
    ("namespace", "name", "fields", "bare"),
    [
        ("demo/x", "t", (b"demo", b"x"), b"t"),
        ("demo", "a/b", (b"demo",), b"a/b"),
        ("demo", "a%2fb%20%ff", (b"demo",), b"a/b \xff"),
        ("d%2fe", "", (b"d/e",), b""),
        ("d\u00e9", "t\u00e9", ("d\u00e9".encode(),), "t\u00e9".encode()),
    ],
)
def test_tracks_are_typed_as_they_are_shown(
    namespace: str, name: str, fields: tuple[bytes, ...], bare: bytes
) -> None:
    track = track_of(namespace, name)
    assert track == FullTrackName(Namespace(fields), bare)
    assert track_of(*track_path(track).split(" ")) == track


@pytest.mark.parametrize(
    ("namespace", "name", "words"),
    [
        ("demo//x", "t", "an empty field"),
        ("demo", "50%", "two hex digits"),
        ("demo", "\udcff", r"NAME '\\udcff': not UTF-8"),
        ("\udcff", "t", r"NAMESPACE '\\udcff': not UTF-8"),
        ("/".join("a" * 33), "t", "32"),
        ("demo", "t" * 5000, "4096"),
    ],
)
def test_tracks_that_cannot_be(namespace: str, name: str, words: str) -> None:
    with pytest.raises(UsageFault, match=words):
        track_of(namespace, name)


def test_a_lost_and_a_restored_connection_are_remarked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Switched:
        connected = True

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            return

    session = Switched()
    monkeypatch.setattr(Link, "session", lambda _: session)
    monkeypatch.setattr("laps_sdk.cli.options.WATCH_EVERY", 0.001)
    shown = ""

    async def until(words: str) -> None:
        nonlocal shown
        async with asyncio.timeout(20):
            while words not in shown:
                await asyncio.sleep(0.001)
                shown += capsys.readouterr().err

    async def work() -> None:
        async with Link(url=URL).connected(Voice()):
            session.connected = False
            await until(f"{URL}: connection lost; retrying\n")
            session.connected = True
            await until(f"{URL}: connected again\n")

    asyncio.run(work())
    assert shown.count("\n") == 2


def test_a_prefix_may_be_empty() -> None:
    assert namespace_of("") == Namespace()


def test_locations() -> None:
    assert location_of("--from", "7") == 7
    assert location_of("--from", "7.3") == (7, 3)


@pytest.mark.parametrize("text", ["", "x", "-1", "1.", ".1", "1.2.3", "1_0", " 1", "\u0664", "1e3"])
def test_what_is_no_location(text: str) -> None:
    with pytest.raises(UsageFault, match="must be a group"):
        location_of("--from", text)


@pytest.mark.parametrize("text", [str(1 << 62), "0." + "9" * 5000])
def test_locations_have_an_end(text: str) -> None:
    with pytest.raises(UsageFault, match=r"2\*\*62"):
        location_of("--to", text)


def test_errors_name_the_track_as_it_was_typed() -> None:
    track = track_of("demo/x", "t")
    with pytest.raises(RequestTimeoutError) as fault, as_typed(track):
        raise RequestTimeoutError(f"SUBSCRIBE {track}: no answer")
    assert str(fault.value) == "SUBSCRIBE demo/x t: no answer"
    with pytest.raises(RequestError, match="about nothing"), as_typed(track):
        raise RequestError("about nothing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sub", "ftp://x", "demo", "t"), ("laps sub: relay address 'ftp://x'",)),
        (("pub", URL, "demo//x", "t"), ("laps pub: ", "an empty field")),
        (("pub", URL, "demo", "t", "-f", "/nowhere/x"), ("--file /nowhere/x: no such file",)),
        (("pub", URL, "demo", "t", "-f", "/dev/null", "-m", "x"), ("not both",)),
        (("pub", URL, "demo", "t", "-m", "x", "--chunk", "5"), ("--chunk splits stdin",)),
        (
            ("sub", URL, "demo", "t", "--start", "-1"),
            ("--start -1: must be latest, next-group, a group",),
        ),
        (("fetch", URL, "demo", "t", "--from", "x"), ("--from x: must be a group",)),
        (("fetch", URL, "demo", "t", "--to", "1.x"), ("--to 1.x: ",)),
        (("ls", URL, "demo/"), ("an empty field",)),
        (("ping", URL, "--draft", "99"), ("laps ping: --draft 99: must be one of 18, 16",)),
        (("ping", URL, "--transport", "tcp"), ("--transport tcp",)),
        (("ping", URL, "--pin", "12:34"), ("--pin '12:34'",)),
        (("ping", URL, "--token-file", "/nowhere/t"), ("--token-file /nowhere/t: No such",)),
        (("ping", URL, "--token-file", "/"), ("--token-file /: Is a directory",)),
        (("bench", URL, "--png", "/nowhere/x.png"), ("--png /nowhere/x.png: no such",)),
        (("doctor", URL, "--draft", "1"), ("laps doctor: --draft 1",)),
        (("doctor", "moqt://", "--offline"), ("no host",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_usage_faults_are_a_line_and_exit_code_2(
    arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    one_fault(laps(*arguments), 2, *words)
