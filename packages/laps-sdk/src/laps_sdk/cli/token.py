"""``laps token``: make, show and check authorization tokens, and make their keys."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from laps_sdk import tokens
from laps_sdk.tokens.constants import ALGORITHMS
from laps_wire.errors import LapsError
from laps_wire.names import FullTrackName

if TYPE_CHECKING:
    from laps_sdk.tokens.keys import Algorithm

__all__ = ["app"]

app = typer.Typer(
    name="token",
    help="Make, show and check authorization tokens (CAT for MoQT).",
    no_args_is_help=True,
)

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NEEDS_CWT: Final = 'this needs cwt: pip install -e "packages/laps-sdk[tokens]"'
_REFUSED: Final = 1
_USAGE: Final = 2

KeyFile = Annotated[Path, typer.Option("--key", "-k", help="Key file (JWK or JWK set).")]
KeyFiles = Annotated[
    list[Path], typer.Option("--key", "-k", help="Key file; give several for several keys.")
]
TokenText = Annotated[
    str,
    typer.Argument(
        metavar="TOKEN", help="The token as base64url text; '-' or nothing reads standard input."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@contextmanager
def _readable_errors(code: int) -> Generator[None]:
    """One line and an exit code instead of a traceback."""
    try:
        yield
    except tokens.TokenError as error:
        typer.echo(f"laps token: {error}", err=True)
        raise typer.Exit(_REFUSED) from None
    except LapsError as error:
        typer.echo(f"laps token: {error}", err=True)
        raise typer.Exit(code) from None
    except ModuleNotFoundError as error:
        if error.name != "cwt":
            raise
        typer.echo(f"laps token: {_NEEDS_CWT}", err=True)
        raise typer.Exit(_REFUSED) from None


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="Where to write the private key (mode 0600).")],
    algorithm: Annotated[
        str, typer.Option("--alg", help=f"One of {', '.join(ALGORITHMS)}.")
    ] = "ES256",
    kid: Annotated[str, typer.Option(help="The key's id; by default the file's name.")] = "",
    public: Annotated[
        Path | None, typer.Option(help="Also write the public half, for relays.")
    ] = None,
) -> None:
    """Make a key for tokens."""
    with _readable_errors(_USAGE):
        if algorithm not in ALGORITHMS:
            raise tokens.KeyFileError(
                f"algorithm {algorithm!a}; one of {', '.join(ALGORITHMS)} belongs here"
            )
        key = tokens.generate(cast("Algorithm", algorithm), kid or file.stem)
        half = None if public is None else key.public()
        tokens.save_key(key, file)
        typer.echo(f"wrote {file} (private, {algorithm}, kid {key.kid})")
        if half is not None and public is not None:
            tokens.save_key(half, public)
            typer.echo(f"wrote {public} (public)")


@app.command()
def mint(
    *,
    key: KeyFile,
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope",
            "-s",
            help="What is allowed, e.g. 'pub:example.2enet-team2/*', 'sub:chat--room1', 'all:*'.",
        ),
    ],
    expires_in: Annotated[
        str, typer.Option("--expires-in", help="Lifetime: 90s, 15m, 1h, 7d.")
    ] = "1h",
    kid: Annotated[str | None, typer.Option(help="Which key of the file.")] = None,
    issuer: Annotated[str | None, typer.Option("--iss", help="Issuer.")] = None,
    subject: Annotated[str | None, typer.Option("--sub", help="Subject.")] = None,
    audience: Annotated[list[str] | None, typer.Option("--aud", help="Audience.")] = None,
    not_before: Annotated[
        str | None, typer.Option("--not-before", help="Not valid before so long from now.")
    ] = None,
    revalidate: Annotated[
        float | None, typer.Option(help="Seconds after which relays check a grant again.")
    ] = None,
) -> None:
    """Make a token and print it."""
    now = int(time.time())
    with _readable_errors(_USAGE):
        claims = tokens.Claims(
            scopes=tuple(tokens.parse_scope(text) for text in scope),
            issuer=issuer,
            subject=subject,
            audience=tuple(audience or ()),
            expires=now + _seconds(expires_in),
            not_before=None if not_before is None else now + _seconds(not_before),
            issued_at=now,
            revalidate=revalidate,
        )
        typer.echo(tokens.to_text(tokens.mint(claims, tokens.load_private_key(key, kid))))


@app.command()
def show(text: TokenText = "-", as_json: AsJson = False) -> None:
    """Show what a token says, without checking who made it."""
    with _readable_errors(_USAGE):
        envelope = tokens.open_envelope(tokens.from_text(_read(text)))
        _print(_facts(envelope, envelope.claims()), as_json=as_json)
    if not as_json:
        typer.echo("not verified: 'laps token verify' checks the signature", err=True)


@app.command()
def verify(
    key: KeyFiles,
    text: TokenText = "-",
    audience: Annotated[
        list[str] | None, typer.Option("--aud", help="Who we are; may be given several times.")
    ] = None,
    issuer: Annotated[
        list[str] | None, typer.Option("--iss", help="Whom we trust; may be given several times.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Also ask whether this action is allowed, e.g. subscribe.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="... on this track, e.g. example.2enet-team2--report.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a token; exit code 0 if it holds, 1 if not."""
    with _readable_errors(_USAGE):
        ring = tokens.KeyRing([item for path in key for item in tokens.load_keys(path)])
        expected = tokens.Expectations(audiences=audience or (), issuers=issuer or ())
        raw = tokens.from_text(_read(text))
        found = tokens.verify(raw, ring, time.time(), expected)
        _print(_facts(tokens.open_envelope(raw), found.claims), as_json=as_json)
        if action is not None and not _allowed(found.claims, action, track):
            typer.echo(f"laps token: does not allow {action} on {track or 'that'}", err=True)
            raise typer.Exit(_REFUSED)


def _allowed(claims: tokens.Claims, action: str, track: str | None) -> bool:
    wanted = tokens.parse_scope(f"{action}:*").actions
    name = None if track is None else FullTrackName.parse(track)
    return all(
        claims.allows(
            number,
            None if name is None else name.namespace.fields,
            None if name is None else name.name,
        )
        for number in wanted
    )


def _read(text: str) -> str:
    if text != "-":
        return text
    try:
        return sys.stdin.read(2 * tokens.MAX_TOKEN_BYTES)
    except UnicodeDecodeError:
        raise tokens.TokenMalformedError("a token as text is base64url, not bytes") from None


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text)
    if found is None:
        raise tokens.KeyFileError(f"{text!a} is no duration; write 90s, 15m, 1h or 7d")
    return int(found[1]) * _SECONDS[found[2] or "s"]


def _facts(envelope: tokens.Envelope, claims: tokens.Claims) -> dict[str, Any]:
    """What to print, in reading order; texts of strangers are escaped."""
    names = {number: name for name, number in ALGORITHMS.items()}
    facts: dict[str, Any] = {
        "algorithm": names.get(envelope.algorithm, str(envelope.algorithm)),
        "kid": None if envelope.kid is None else _safe(envelope.kid.decode("utf-8", "replace")),
        "issuer": _safe(claims.issuer),
        "subject": _safe(claims.subject),
        "audience": [_safe(item) for item in claims.audience],
        "issued at": _moment(claims.issued_at),
        "not before": _moment(claims.not_before),
        "expires": _moment(claims.expires),
        "revalidate after s": claims.revalidate,
        "scopes": [tokens.format_scope(item) for item in claims.scopes],
        "ignored claims": list(claims.ignored),
    }
    return {name: value for name, value in facts.items() if value not in (None, [])}


def _safe(text: str | None) -> str | None:
    return text if text is None or text.isprintable() else ascii(text)


def _moment(value: float | None) -> str | None:
    if value is None:
        return None
    try:
        return datetime.fromtimestamp(value, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{value:g}"


def _print(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({name.replace(" ", "_"): item for name, item in facts.items()}))
        return
    for name, value in facts.items():
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            typer.echo(f"{name if index == 0 else '':20}{item}")
