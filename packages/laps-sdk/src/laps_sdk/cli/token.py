"""``laps token``: make, show and verify authorization tokens, and make their keys."""

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
from laps_sdk.cli.output import install_extra
from laps_sdk.tokens.constants import ALGORITHMS
from laps_wire.errors import LapsError
from laps_wire.names import FullTrackName

if TYPE_CHECKING:
    from laps_sdk.tokens.signing import Algorithm

__all__ = ["app"]

app = typer.Typer(
    name="token",
    help="Make, show and verify authorization tokens (CAT for MoQT).",
    no_args_is_help=True,
)

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NEEDS_CWT: Final = f"this needs cwt: {install_extra('tokens')}"
_REFUSED: Final = 1
_USAGE: Final = 2

KeyFile = Annotated[Path, typer.Option("--key", "-k", help="Key file (JWK or JWK set).")]
KeyFiles = Annotated[
    list[Path], typer.Option("--key", "-k", help="Key file (JWK or JWK set); may be repeated.")
]
TokenText = Annotated[
    str,
    typer.Argument(metavar="TOKEN", help="Token as base64url text; '-' or none reads stdin."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def _readable_errors(code: int) -> Generator[None]:
    """Turn expected errors into one line on stderr and an exit code."""
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
    kid: Annotated[str, typer.Option(help="Key id. Default: the name of the file.")] = "",
    public: Annotated[
        Path | None, typer.Option(help="Also write the public key to this file, for relays.")
    ] = None,
) -> None:
    """Make a key that signs tokens."""
    with _readable_errors(_USAGE):
        if algorithm not in ALGORITHMS:
            raise tokens.KeyFileError(
                f"algorithm {algorithm!a}: must be one of {', '.join(ALGORITHMS)}"
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
            help="What the token allows: 'pub:example.2enet-team2/*', 'sub:chat--room1', 'all:*'.",
        ),
    ],
    expires_in: Annotated[
        str, typer.Option("--expires-in", help="Lifetime: 90s, 15m, 1h, 7d.")
    ] = "1h",
    kid: Annotated[str | None, typer.Option(help="Id of the key in the file.")] = None,
    issuer: Annotated[str | None, typer.Option("--iss", help="Issuer.")] = None,
    subject: Annotated[str | None, typer.Option("--sub", help="Subject.")] = None,
    audience: Annotated[list[str] | None, typer.Option("--aud", help="Audience.")] = None,
    not_before: Annotated[
        str | None,
        typer.Option("--not-before", help="Time until the token becomes valid: 90s, 15m, 1h, 7d."),
    ] = None,
    revalidate: Annotated[
        float | None, typer.Option(help="Seconds after which relays check the token again.")
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
    """Show the contents of a token without verifying it."""
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
        list[str] | None, typer.Option("--aud", help="Accepted audience; may be repeated.")
    ] = None,
    issuer: Annotated[
        list[str] | None, typer.Option("--iss", help="Trusted issuer; may be repeated.")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(help="Also check that the token allows this action, e.g. subscribe."),
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Track for --action, e.g. example.2enet-team2--report.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a token: exit code 0 if it is valid, 1 if not."""
    with _readable_errors(_USAGE):
        ring = tokens.KeyRing([item for path in key for item in tokens.load_keys(path)])
        expected = tokens.Expectations(audiences=audience or (), issuers=issuer or ())
        raw = tokens.from_text(_read(text))
        found = tokens.verify(raw, ring, time.time(), expected)
        _print(_facts(tokens.open_envelope(raw), found.claims), as_json=as_json)
        on = "" if track is None else f" on {track}"
        if action is not None and not _allowed(found.claims, action, track):
            typer.echo(f"laps token: the token does not allow {action}{on}", err=True)
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
        raise tokens.TokenMalformedError("the text of a token must be base64url") from None


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text)
    if found is None:
        raise tokens.KeyFileError(f"{text!a} is not a duration such as 90s, 15m, 1h or 7d")
    return int(found[1]) * _SECONDS[found[2] or "s"]


def _facts(envelope: tokens.Envelope, claims: tokens.Claims) -> dict[str, Any]:
    """Return the contents of a token for printing; its texts are made printable."""
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
