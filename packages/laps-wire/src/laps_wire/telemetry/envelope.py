"""The envelope: who wrote an event, when, and which of its own it is.

``event_id`` is ``relay:boot:seq``. The relay counts ``seq`` up by one for each event of a boot, so
a reader removes copies exactly, and sees a gap in the telemetry itself as a gap in the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from laps_wire.errors import EncodeError
from laps_wire.telemetry.codec import (
    build,
    fields_from_plain,
    fields_to_plain,
    from_plain,
    put_extra,
    to_plain,
)
from laps_wire.telemetry.errors import TelemetryError
from laps_wire.telemetry.events import BODIES, Body, UnknownBody
from laps_wire.telemetry.schema import VERSION, Column, struct_of, version_key

__all__ = ["Event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of telemetry: what all events have in common.

    :meth:`of` makes one, :meth:`from_dict` reads one.
    """

    v: Annotated[str, Column("Version of the schema that the writer used, major.minor.")]
    event_id: Annotated[str, Column("relay:boot:seq; the same event has the same id for ever.")]
    ts_us: Annotated[int, Column("When it happened: microseconds since 1970, UTC, relay's clock.")]
    relay: Annotated[str, Column("Node id of the relay that wrote it.")]
    boot: Annotated[int, Column("Boot epoch of that relay; larger after every start.")]
    type: Annotated[str, Column("Which event this is; it decides the fields of the body.")]
    tenant: Annotated[str | None, Column("Whose traffic it is about, if it is about one.")] = None
    region: Annotated[str | None, Column("Where the relay stands, in its operator's word.")] = None
    body: Annotated[Body, Column("What happened.", any_struct=True)]
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.type != (expected := _type_of(self.body)):
            raise EncodeError(f"type {self.type!a} has a body of {expected!a}")
        prefix = f"{self.relay}:{self.boot}:"
        # A node id has colons itself, so the id is compared with its parts and never split.
        if not self.event_id.startswith(prefix) or not _is_seq(self.event_id[len(prefix) :]):
            raise EncodeError(
                f"event_id {self.event_id[:80]!a} is not relay:boot:seq, here {prefix[:80]!a}"
                " and a number"
            )

    @classmethod
    def of(
        cls,
        body: Body,
        *,
        relay: str,
        boot: int,
        seq: int,
        ts_us: int,
        tenant: str | None = None,
        region: str | None = None,
    ) -> Event:
        """The event for ``body``, in the version that this package writes."""
        return cls(
            v=VERSION,
            event_id=f"{relay}:{boot}:{seq}",
            ts_us=ts_us,
            relay=relay,
            boot=boot,
            type=_type_of(body),
            tenant=tenant,
            region=region,
            body=body,
        )

    @property
    def seq(self) -> int:
        """The number of the event within its boot."""
        return int(self.event_id.rpartition(":")[2])

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON-able data: null fields left out, unknown fields as they came."""
        spec, body = struct_of(Event), self.body
        plain = fields_to_plain(self, spec, "", skip="body")
        plain["body"] = dict(body.data) if isinstance(body, UnknownBody) else to_plain(body, "body")
        put_extra(plain, self, spec, "")
        return plain

    @classmethod
    def from_dict(cls, plain: object) -> Event:
        """The event that a dict describes; :class:`TelemetryError` says what is wrong, and where.

        A type that this version does not know gives an :class:`UnknownBody`. An unknown *major*
        version is refused: its fields may mean something else.
        """
        spec = struct_of(Event)
        values = fields_from_plain(plain, spec, "", skip="body")
        _check_version(values["v"])
        data = plain.get("body") if isinstance(plain, Mapping) else None
        if not isinstance(data, Mapping):
            raise TelemetryError("missing or not an object", where="body")
        kind = values["type"]
        body_class = BODIES.get(kind)
        values["body"] = (
            UnknownBody(kind, dict(data))
            if body_class is None
            else from_plain(body_class, data, "body")
        )
        event: Event = build(spec, values, "")
        return event


def _type_of(body: Body) -> str:
    return body.type if isinstance(body, UnknownBody) else body.TYPE


def _check_version(version: str) -> None:
    """Any minor of our major is read; the rest is not ours to guess at."""
    try:
        major, _ = version_key(version)
    except ValueError as error:
        raise TelemetryError(str(error), where="v") from None
    ours, _ = version_key(VERSION)
    if major != ours:
        raise TelemetryError(f"version {version}, but this reader knows {ours}.x", where="v")


def _is_seq(text: str) -> bool:
    """Whether ``text`` is a sequence number, in the one way that it is written."""
    return text.isascii() and text.isdigit() and len(text) <= 19 and str(int(text)) == text
