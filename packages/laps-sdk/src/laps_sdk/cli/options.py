"""Options that the commands share: the relay's address, trust, the token, output.

Every option of a connection can also be set in the environment (``LAPS_...``). Secrets come from
files or from the environment, never from an option: everybody who can list processes sees options.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from laps_sdk.cli.output import UsageFault, Voice, one_line
from laps_sdk.client.core.objects import to_namespace, track_path
from laps_sdk.client.core.subscribe_options import LocationLike
from laps_sdk.client.session import Session, connect
from laps_sdk.errors import RequestError
from laps_sdk.quic.endpoint import Backend
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.tokens.claims import from_text
from laps_sdk.tokens.errors import TokenError
from laps_sdk.uri import parse_address
from laps_wire.errors import EncodeError
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "AsJson",
    "Count",
    "Limit",
    "Lines",
    "Link",
    "Name",
    "NamespaceText",
    "Quiet",
    "Wait",
    "as_typed",
    "dials",
    "location_of",
    "namespace_of",
    "track_of",
]

_TRUST = "Trust"
_CONNECTION = "Connection"

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="Relay address: moqt://host:port for QUIC, https://host:port/path for WebTransport.",
    ),
]
NamespaceText = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE",
        help="Namespace: '/' separates its fields, %2f stands for a '/' inside a field.",
    ),
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Track name: '%' and two hex digits stand for a byte."),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        envvar="LAPS_CA_FILE",
        help="Trust certificates that the authority in this PEM file signed.",
        rich_help_panel=_TRUST,
    ),
]
Pin = Annotated[
    str | None,
    typer.Option(
        "--pin",
        envvar="LAPS_PIN",
        help="Trust the certificate with this SHA-256, which the relay prints at its start.",
        rich_help_panel=_TRUST,
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        envvar="LAPS_INSECURE",
        help="Accept any certificate. For tests only.",
        rich_help_panel=_TRUST,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="LAPS_TOKEN_FILE",
        help="File with the authorization token. LAPS_TOKEN can hold the token itself.",
        rich_help_panel=_TRUST,
    ),
]
TransportName = Annotated[
    str,
    typer.Option(
        "--transport",
        envvar="LAPS_TRANSPORT",
        help="QUIC library: aioquic, aioquic-stock or qh3.",
        rich_help_panel=_CONNECTION,
    ),
]
DraftName = Annotated[
    str | None,
    typer.Option(
        "--draft",
        envvar="LAPS_DRAFT",
        help="Offer only this MoQT draft: 16 or 18.",
        rich_help_panel=_CONNECTION,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        envvar="LAPS_TIMEOUT",
        min=0.01,
        help="Seconds to wait for the connection and for each answer.",
        rich_help_panel=_CONNECTION,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line on stdout.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no progress and no remarks on stderr.")
]
Lines = Annotated[
    bool | None,
    typer.Option(
        "--lines/--raw",
        "-l/-r",
        help="Add a newline after every object, or not. Default: only on a terminal.",
        show_default=False,
    ),
]
Count = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="Stop after this many objects.")
]
Limit = Annotated[
    float | None,
    typer.Option("--for", min=0.01, metavar="SECONDS", help="Stop after this many seconds."),
]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        "-W",
        min=0.01,
        metavar="SECONDS",
        help="Give up with exit code 3 if nothing arrives for this long.",
    ),
]

_BACKENDS: Final[dict[str, Backend]] = {
    "aioquic": "aioquic",
    "aioquic-stock": "aioquic-stock",
    "qh3": "qh3",
}


_DIALLING: Final[dict[str, tuple[object, object]]] = {
    "ca_file": (CaFile, None),
    "pin": (Pin, None),
    "insecure": (Insecure, False),
    "token_file": (TokenFile, None),
    "transport": (TransportName, "aioquic"),
    "draft": (DraftName, None),
    "timeout": (Timeout, 10.0),
}
"""The options of every command that connects to a relay, with their defaults."""

WATCH_EVERY: Final = 0.25
"""Seconds between two looks at the state of a connection."""

_MOST: Final = (1 << 62) - 1
"""The largest group or object number in both drafts."""


def dials(command: Callable[..., None], *, url: str | None = None) -> Callable[..., None]:
    """Give a command the argument URL and the options of a connection.

    The command receives them as its first parameter, ``link``. Typer reads the signature that is
    composed here. ``url`` is the default of URL; without it the argument is required.
    """
    own = inspect.signature(command, eval_str=True).parameters
    only = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(
            "url", only, annotation=Url, default=inspect.Parameter.empty if url is None else url
        ),
        *(p.replace(kind=only) for name, p in own.items() if name != "link"),
        *(
            inspect.Parameter(name, only, annotation=annotation, default=default)
            for name, (annotation, default) in _DIALLING.items()
        ),
    ]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        link = Link(url=given.pop("url"), **{name: given.pop(name) for name in _DIALLING})
        with one_line(command.__name__):
            command(link, **given)

    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    del wrapped.__wrapped__  # or its annotations would win
    return wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The address of a relay and the options of the connection to it."""

    url: str
    ca_file: Path | None = None
    pin: str | None = None
    insecure: bool = False
    token_file: Path | None = None
    transport: str = "aioquic"
    draft: str | None = None
    timeout: float = 10.0
    reconnect: bool = True

    def session(self) -> Session:
        """Return a session that is not connected yet; raises ``UsageFault`` for a bad option."""
        address = parse_address(self.url)
        if self.ca_file is not None and not self.ca_file.is_file():
            raise UsageFault(f"--ca-file {self.ca_file}: no such file")
        if self.insecure and (self.ca_file is not None or self.pin is not None):
            raise UsageFault("--insecure accepts any certificate: omit --ca-file and --pin")
        try:
            return connect(
                address,
                ca_file=None if self.ca_file is None else str(self.ca_file),
                pin=self.pin,
                insecure=self.insecure,
                token=self._token(),
                transport=self._backend(),
                drafts=self._drafts(),
                reconnect=self.reconnect,
                timeout=self.timeout,
            )
        except EncodeError as error:
            raise UsageFault(f"--{error}") from None  # the text begins with the option's name

    @asynccontextmanager
    async def connected(self, voice: Voice) -> AsyncIterator[Session]:
        """Connect for the block; a lost and a restored connection are remarked on stderr."""
        async with self.session() as session:
            watch = asyncio.create_task(_remark_losses(session, self.url, voice))
            try:
                yield session
            finally:
                watch.cancel()

    def _backend(self) -> Backend:
        found = _BACKENDS.get(self.transport)
        if found is None:
            raise UsageFault(f"--transport {self.transport}: must be one of {', '.join(_BACKENDS)}")
        return found

    def _drafts(self) -> tuple[str, ...]:
        if self.draft is None:
            return DRAFTS
        wanted = self.draft if self.draft.startswith("moqt-") else f"moqt-{self.draft}"
        if wanted not in DRAFTS:
            spoken = ", ".join(alpn.removeprefix("moqt-") for alpn in DRAFTS)
            raise UsageFault(f"--draft {self.draft}: must be one of {spoken}")
        return (wanted,)

    def _token(self) -> str | None:
        if self.token_file is None:
            where, token = "LAPS_TOKEN", os.environ.get("LAPS_TOKEN", "")
        else:
            where = f"--token-file {self.token_file}"
            try:
                token = self.token_file.read_text(encoding="utf-8", errors="replace").strip()
            except OSError as error:
                raise UsageFault(f"{where}: {error.strerror}") from None
            if not token:
                raise UsageFault(f"{where}: the file is empty")
        if not token:
            return None
        try:
            from_text(token)
        except TokenError as error:
            raise UsageFault(f"{where}: {error}; 'laps token mint' makes a token") from None
        return token


async def _remark_losses(session: Session, url: str, voice: Voice) -> None:
    connected = True
    while True:
        await asyncio.sleep(WATCH_EVERY)
        if session.connected != connected:
            connected = session.connected
            voice.remark(
                f"{url}: {'connected again' if connected else 'connection lost; retrying'}"
            )


def track_of(namespace: str, name: str) -> FullTrackName:
    """Return the track; raises ``UsageFault`` for a bad name.

    A name is read like one field of a namespace, so that the output of ``laps ls`` can be typed.
    Only the slash needs no escape in it.
    """
    try:
        parsed = to_namespace(_utf8("NAME", name).replace("/", "%2f")).fields
        return FullTrackName(namespace_of(namespace), parsed[0] if parsed else b"")
    except ValueError as error:  # TextFormError, or too long for the wire
        raise UsageFault(str(error)) from None


def namespace_of(text: str) -> Namespace:
    """Return the namespace; raises ``UsageFault`` or ``TextFormError`` for a bad one."""
    return to_namespace(_utf8("NAMESPACE", text))


def _utf8(what: str, text: str) -> str:
    """Return an argument of the shell if it is UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageFault(
            f"{what} {text!a}: not UTF-8; write other bytes as % and two hex digits"
        ) from None
    return text


def location_of(option: str, text: str, *, words: str = "") -> LocationLike:
    """Read a group, or a group and an object; ``words`` names the option's other values."""
    numbers = text.split(".")
    if len(numbers) > 2 or not all(n.isascii() and n.isdigit() for n in numbers):
        raise UsageFault(
            f"{option} {text}: must be {words}a group (7), or a group and an object (7.0)"
        )
    values = [int(n[:20]) for n in numbers]
    if max(values) > _MOST:
        raise UsageFault(f"{option} {text}: must be at most 2**62 - 1")
    return values[0] if len(values) == 1 else (values[0], values[1])


@contextmanager
def as_typed(track: FullTrackName) -> Generator[None]:
    """Let errors name the track as it was typed, not in the text form of the draft."""
    try:
        yield
    except RequestError as error:
        error.args = (str(error).replace(str(track), track_path(track)),)
        raise
