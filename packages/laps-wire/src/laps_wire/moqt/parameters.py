"""Message parameters and track properties: one model for both drafts, and the coding of each draft.

A parameter is optional, so a message's parameters are a dataclass with a field for each one, None
where it is absent::

    Parameters(subscriber_priority=128, group_order=GroupOrder.ASCENDING)

No information is lost: types are in ascending order on the wire, and only AUTHORIZATION_TOKEN may
repeat. The drafts differ in the coding::

    draft 16 (9.2)     count (i), then Key-Value-Pairs
    draft 18 (10.2)    count (i), then { delta type (i), value in the type's own form } ...

                                 draft 16                draft 18
    0x02  [OBJECT_]DELIVERY_TIMEOUT    varint > 0        varint
    0x03  AUTHORIZATION_TOKEN *        length, Token     length, Token
    0x04  RENDEZVOUS_TIMEOUT                             varint
    0x06  SUBGROUP_DELIVERY_TIMEOUT                      varint
    0x08  EXPIRES                      varint            varint
    0x09  LARGEST_OBJECT               length, Location  Location
    0x0A  FILL_TIMEOUT                                   varint
    0x10  FORWARD                      varint 0..1       u8 0..1
    0x20  SUBSCRIBER_PRIORITY          varint 0..255     u8
    0x21  SUBSCRIPTION_FILTER          length, Filter    length, Filter (end as a delta)
    0x22  GROUP_ORDER                  varint 1..2       u8 1..2
    0x32  NEW_GROUP_REQUEST            varint            varint
    0x34  TRACK_NAMESPACE_PREFIX                         Track Namespace

    * may repeat

A value out of range is a PROTOCOL_VIOLATION. A malformed Token, or malformed Location of draft 16,
is a KEY_VALUE_FORMATTING_ERROR; a malformed filter is a PROTOCOL_VIOLATION (9.2.2.5). An unknown
type is a PROTOCOL_VIOLATION in both drafts, unless an extension was negotiated for it.

A parameter in a message that does not define it must be ignored in draft 16 (9.2.2) and ends the
session in draft 18 (10.2.1). ``ignored`` keeps what draft 16 ignores, as raw pairs.

Track properties (draft 16: track extensions) are Key-Value-Pairs that a publisher sends about a
track. Relays forward them unchanged, so messages keep them raw. The codec checks the ranges, as a
receiver must; :class:`TrackProperties` is a typed view with defaults (moq-transport-16, 11;
moq-transport-18, 12)::

    0x02  [OBJECT_]DELIVERY_TIMEOUT      ms; draft 16: not 0, draft 18: 0 is none
    0x04  MAX_CACHE_DURATION             ms
    0x06  SUBGROUP_DELIVERY_TIMEOUT      ms, draft 18
    0x0B  IMMUTABLE                      pairs that no relay may change
    0x0E  DEFAULT_PUBLISHER_PRIORITY     0..255, default 128
    0x22  DEFAULT_PUBLISHER_GROUP_ORDER  1 ascending (default), 2 descending
    0x30  DYNAMIC_GROUPS                 0 (default) or 1
    0x4000..0x7FFF                       draft 18: not to be served unless understood
    0x4C4150                             ours: PUBLISHER_INSTANCE, a random number of the publisher
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from laps_wire.buffer import QUIC_MAX, Reader, Writer
from laps_wire.errors import MalformedError, ProtocolViolation
from laps_wire.fields import U8, VARINT, Choice, Constrained, FieldCodec
from laps_wire.moqt.codepoints import (
    GroupOrder,
    ParameterTypeD16,
    ParameterTypeD18,
    PropertyTypeD18,
)
from laps_wire.moqt.keyvalue import (
    KEY_VALUES,
    Enclosed,
    Entry,
    Flag,
    KeyValue,
    KeyValues,
    read_entries,
    read_pairs,
    read_value,
    write_entries,
)
from laps_wire.moqt.structures import (
    LOCATION,
    TOKEN,
    FilterCodec,
    Location,
    SubscriptionFilter,
    Token,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import NAMESPACE_PREFIX, Namespace

__all__ = [
    "DEFAULT_PRIORITY",
    "NO_PARAMETERS",
    "PUBLISHER_INSTANCE",
    "Parameters",
    "ParametersCodec",
    "Scope",
    "TrackProperties",
    "TrackPropertiesCodec",
    "check_scope",
    "entries_of",
]

# The model of message parameters


class Scope(Enum):
    """What carries parameters.

    A decoder knows the message; REQUEST_UPDATE and REQUEST_OK also depend on the request that they
    belong to, which only the session knows. It checks those again with the narrower scope below
    (:func:`laps_wire.moqt.parameters.check_scope`).
    """

    SUBSCRIBE = "SUBSCRIBE"
    SUBSCRIBE_OK = "SUBSCRIBE_OK"
    PUBLISH = "PUBLISH"
    PUBLISH_OK = "PUBLISH_OK"
    """Draft 16's message, and draft 18's REQUEST_OK to a PUBLISH."""
    FETCH = "FETCH"
    FETCH_OK = "FETCH_OK"
    TRACK_STATUS = "TRACK_STATUS"
    PUBLISH_NAMESPACE = "PUBLISH_NAMESPACE"
    SUBSCRIBE_NAMESPACE = "SUBSCRIBE_NAMESPACE"
    SUBSCRIBE_TRACKS = "SUBSCRIBE_TRACKS"

    REQUEST_UPDATE = "REQUEST_UPDATE"
    """Whatever the request is."""
    UPDATE_SUBSCRIPTION = "REQUEST_UPDATE of a subscription"
    UPDATE_FETCH = "REQUEST_UPDATE of a FETCH"
    UPDATE_PREFIX = "REQUEST_UPDATE of a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS"
    UPDATE_OTHER = "REQUEST_UPDATE of another request"

    REQUEST_OK = "REQUEST_OK"
    """Whatever the request was."""
    REQUEST_UPDATE_OK = "REQUEST_OK to a REQUEST_UPDATE"
    TRACK_STATUS_OK = "REQUEST_OK to a TRACK_STATUS"
    NAMESPACE_OK = "REQUEST_OK to a request about namespaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of one message; what is None was not sent. Times are in milliseconds."""

    object_delivery_timeout: int | None = None
    """How long an object is worth sending: 0x02, in draft 16 called DELIVERY_TIMEOUT and never 0;
    in draft 18 a 0 means no timeout."""
    authorization_tokens: tuple[Token, ...] = ()
    """0x03, the only parameter that may repeat."""
    rendezvous_timeout: int | None = None
    """0x04, draft 18: how long to wait for a publisher to appear."""
    subgroup_delivery_timeout: int | None = None
    """0x06, draft 18: how long a finished subgroup may take to be delivered; 0 is no timeout."""
    expires: int | None = None
    """0x08: when the sender will end the subscription; 0 is never or unknown."""
    largest_object: Location | None = None
    """0x09: the largest location that the sender has seen in the track."""
    fill_timeout: int | None = None
    """0x0A, draft 18: how long a relay may wait for objects that a FETCH lacks."""
    forward: bool | None = None
    """0x10: whether objects are sent; absent means yes, or unchanged in an update."""
    subscriber_priority: int | None = None
    """0x20: 0 to 255, lower goes first; absent means 128."""
    subscription_filter: SubscriptionFilter | None = None
    """0x21: which objects; absent means all, or unchanged in an update."""
    group_order: GroupOrder | None = None
    """0x22: which group goes first; absent means as the publisher prefers."""
    new_group_request: int | None = None
    """0x32: asks for a new group; the largest known group and 1, or 0 if none is known."""
    track_namespace_prefix: Namespace | None = None
    """0x34, draft 18: the new prefix of a namespace subscription."""
    ignored: KeyValues = ()
    """Draft 16: pairs that the message does not define, or of negotiated extensions."""


NO_PARAMETERS: Final = Parameters()
"""A message without parameters."""


# Message parameters on the wire

P = TypeVar("P", ParameterTypeD16, ParameterTypeD18)

_UPDATES: Final = frozenset(
    {
        Scope.REQUEST_UPDATE,
        Scope.UPDATE_SUBSCRIPTION,
        Scope.UPDATE_FETCH,
        Scope.UPDATE_PREFIX,
        Scope.UPDATE_OTHER,
    }
)
_UPDATE_SUBSCRIPTION: Final = frozenset({Scope.REQUEST_UPDATE, Scope.UPDATE_SUBSCRIPTION})
_TO_SUBSCRIBE: Final = frozenset({Scope.SUBSCRIBE, Scope.PUBLISH_OK}) | _UPDATE_SUBSCRIPTION
"""What a subscriber says about a subscription: when it begins, or later."""

_TOKENS: Final = _UPDATES | {
    Scope.PUBLISH,
    Scope.SUBSCRIBE,
    Scope.SUBSCRIBE_NAMESPACE,
    Scope.PUBLISH_NAMESPACE,
    Scope.TRACK_STATUS,
    Scope.FETCH,
}
_EXPIRES: Final = frozenset(
    {
        Scope.SUBSCRIBE_OK,
        Scope.PUBLISH,
        Scope.PUBLISH_OK,
        # Draft 16 leaves REQUEST_OK open and draft 18 lists it for updates. A TRACK_STATUS is
        # answered with what SUBSCRIBE_OK would carry (9.19, 10.14), so it is allowed there too.
        Scope.REQUEST_OK,
        Scope.REQUEST_UPDATE_OK,
        Scope.TRACK_STATUS_OK,
    }
)
_LARGEST: Final = frozenset(
    {
        Scope.SUBSCRIBE_OK,
        Scope.PUBLISH,
        Scope.REQUEST_OK,
        Scope.REQUEST_UPDATE_OK,
        Scope.TRACK_STATUS_OK,
    }
)
_PRIORITY: Final = _TO_SUBSCRIBE | {Scope.FETCH, Scope.UPDATE_FETCH}
_GROUP_ORDER: Final = frozenset({Scope.SUBSCRIBE, Scope.PUBLISH_OK, Scope.FETCH})
_FORWARD: Final = _TO_SUBSCRIBE | {Scope.PUBLISH}


@dataclass(frozen=True, slots=True)
class ParameterEntry(Entry):
    """A parameter, and the messages that may carry it."""

    scopes: frozenset[Scope] = frozenset()


def _entry(
    type_: P,
    attribute: str,
    codec: FieldCodec[Any],
    scopes: frozenset[Scope],
    *,
    repeats: bool = False,
) -> ParameterEntry:
    return ParameterEntry(type_.value, type_.name, attribute, codec, repeats, scopes)


_D16: Final = (
    _entry(
        ParameterTypeD16.DELIVERY_TIMEOUT,
        "object_delivery_timeout",
        Constrained(VARINT, 1, QUIC_MAX),
        _TO_SUBSCRIBE,
    ),
    _entry(
        ParameterTypeD16.AUTHORIZATION_TOKEN,
        "authorization_tokens",
        Enclosed(TOKEN),
        _TOKENS,
        repeats=True,
    ),
    _entry(ParameterTypeD16.EXPIRES, "expires", VARINT, _EXPIRES),
    _entry(ParameterTypeD16.LARGEST_OBJECT, "largest_object", Enclosed(LOCATION), _LARGEST),
    _entry(
        ParameterTypeD16.FORWARD, "forward", Flag(VARINT), _FORWARD | {Scope.SUBSCRIBE_NAMESPACE}
    ),
    _entry(
        ParameterTypeD16.SUBSCRIBER_PRIORITY,
        "subscriber_priority",
        Constrained(VARINT, 0, 255),
        _PRIORITY,
    ),
    _entry(
        ParameterTypeD16.SUBSCRIPTION_FILTER,
        "subscription_filter",
        Enclosed(FilterCodec(delta=False), violation=True),
        _TO_SUBSCRIBE,
    ),
    _entry(ParameterTypeD16.GROUP_ORDER, "group_order", Choice(VARINT, GroupOrder), _GROUP_ORDER),
    _entry(ParameterTypeD16.NEW_GROUP_REQUEST, "new_group_request", VARINT, _TO_SUBSCRIBE),
)

_D18: Final = (
    # The timeouts may stand in any REQUEST_UPDATE: draft 18 does not say "for a subscription".
    _entry(
        ParameterTypeD18.OBJECT_DELIVERY_TIMEOUT,
        "object_delivery_timeout",
        VARINT,
        _TO_SUBSCRIBE | _UPDATES,
    ),
    _entry(
        ParameterTypeD18.AUTHORIZATION_TOKEN,
        "authorization_tokens",
        Enclosed(TOKEN),
        _TOKENS | {Scope.SUBSCRIBE_TRACKS},
        repeats=True,
    ),
    _entry(
        ParameterTypeD18.RENDEZVOUS_TIMEOUT,
        "rendezvous_timeout",
        VARINT,
        frozenset({Scope.SUBSCRIBE}),
    ),
    _entry(
        ParameterTypeD18.SUBGROUP_DELIVERY_TIMEOUT,
        "subgroup_delivery_timeout",
        VARINT,
        _TO_SUBSCRIBE | _UPDATES,
    ),
    _entry(ParameterTypeD18.EXPIRES, "expires", VARINT, _EXPIRES),
    _entry(ParameterTypeD18.LARGEST_OBJECT, "largest_object", LOCATION, _LARGEST),
    _entry(ParameterTypeD18.FILL_TIMEOUT, "fill_timeout", VARINT, frozenset({Scope.FETCH})),
    _entry(ParameterTypeD18.FORWARD, "forward", Flag(U8), _FORWARD | {Scope.SUBSCRIBE_TRACKS}),
    _entry(ParameterTypeD18.SUBSCRIBER_PRIORITY, "subscriber_priority", U8, _PRIORITY),
    _entry(
        ParameterTypeD18.SUBSCRIPTION_FILTER,
        "subscription_filter",
        Enclosed(FilterCodec(delta=True), violation=True),
        _TO_SUBSCRIBE,
    ),
    _entry(ParameterTypeD18.GROUP_ORDER, "group_order", Choice(U8, GroupOrder), _GROUP_ORDER),
    _entry(ParameterTypeD18.NEW_GROUP_REQUEST, "new_group_request", VARINT, _TO_SUBSCRIBE),
    _entry(
        ParameterTypeD18.TRACK_NAMESPACE_PREFIX,
        "track_namespace_prefix",
        NAMESPACE_PREFIX,
        frozenset({Scope.REQUEST_UPDATE, Scope.UPDATE_PREFIX}),
    ),
)

_BY_DRAFT: Final[Mapping[Draft, Mapping[int, ParameterEntry]]] = MappingProxyType(
    {
        Draft.D16: MappingProxyType({entry.type: entry for entry in _D16}),
        Draft.D18: MappingProxyType({entry.type: entry for entry in _D18}),
    }
)


@cache
def entries_of(draft: Draft, scope: Scope) -> Mapping[int, ParameterEntry]:
    """The parameters that ``scope`` may carry, by type in ascending order."""
    scopes = {scope}
    if draft is Draft.D18 and scope is Scope.REQUEST_OK:
        scopes.add(Scope.PUBLISH_OK)  # it answers a PUBLISH too (moq-transport-18, 10.5)
    return MappingProxyType(
        {type_: entry for type_, entry in _BY_DRAFT[draft].items() if scopes & entry.scopes}
    )


_ATTRIBUTES: Final = tuple(item.name for item in fields(Parameters))


def _present(parameters: Parameters) -> set[str]:
    """The attributes that say something, without ``ignored``."""
    return {
        name
        for name in _ATTRIBUTES
        if name != "ignored" and getattr(parameters, name) not in (None, ())
    }


def _misplaced(parameters: Parameters, draft: Draft, scope: Scope) -> str:
    """A sentence about the first parameter that ``scope`` may not carry, or nothing."""
    allowed = {entry.attribute for entry in entries_of(draft, scope).values()}
    for name in sorted(_present(parameters) - allowed):
        for entry in _BY_DRAFT[draft].values():
            if entry.attribute == name:
                return f"{entry.name} does not belong in {scope.value} of draft {draft.value}"
        return f"draft {draft.value} has no parameter {name.upper()}"
    return ""


def check_scope(parameters: Parameters, draft: Draft, scope: Scope) -> None:
    """Refuse received parameters that do not belong in ``scope``.

    For the session: once it knows which request a REQUEST_UPDATE changes or a REQUEST_OK answers,
    the narrower scope holds. Draft 18 ends the session for both (10.2.1), draft 16 for updates
    alone (9.11): in any other message it ignores what does not belong there (9.2.2).
    """
    if draft is Draft.D16 and scope not in _UPDATES:
        return
    fault = _misplaced(parameters, draft, scope)
    if fault:
        raise ProtocolViolation(fault)


@dataclass(frozen=True, slots=True)
class ParametersCodec:
    """The parameters of one message in one draft."""

    draft: Draft
    scope: Scope
    extensions: frozenset[int] = field(default=frozenset())
    """Draft 16: other types that setup parameters negotiated; kept as raw pairs."""

    def read(self, reader: Reader, field: str) -> Parameters:
        """Read them."""
        reader.enter(field)
        count = reader.varint("count")
        # A count that lies runs out of bytes, not of memory.
        values, ignored = read_entries(
            reader, entries_of(self.draft, self.scope), count, self._other
        )
        reader.leave()
        return Parameters(**values, ignored=ignored)

    def _other(self, reader: Reader, type_: int) -> KeyValue:
        known = _BY_DRAFT[self.draft].get(type_)
        if known is not None and self.draft is not Draft.D16:
            reader.fail(known.name, f"does not belong in {self.scope.value}")
        if known is None and (self.draft is not Draft.D16 or type_ not in self.extensions):
            reader.fail(f"parameter 0x{type_:X}", f"is not one of draft {self.draft.value}")
        return KeyValue(type_, read_value(reader, type_))

    def write(self, writer: Writer, value: Parameters, field: str) -> None:
        """Write them."""
        fault = _misplaced(value, self.draft, self.scope)
        if fault:
            writer.fail(field, fault)
        entries = entries_of(self.draft, self.scope)
        for pair in value.ignored:
            if self.draft is not Draft.D16:
                writer.fail(field, f"draft {self.draft.value} has no parameters to ignore")
            if pair.type in entries:
                writer.fail(field, f"{entries[pair.type].name} is not to be ignored here")
            if pair.type not in _BY_DRAFT[self.draft] and pair.type not in self.extensions:
                writer.fail(field, f"parameter 0x{pair.type:X} is not one of draft 16")
        write_entries(writer, value, entries.values(), value.ignored, field, counted=True)


# Properties of a track

DEFAULT_PRIORITY: Final = 128
"""A publisher's priority if it does not say (moq-transport-16, 11)."""

_MANDATORY: Final = range(0x4000, 0x8000)
_RANGES: Final[dict[int, tuple[int, int]]] = {
    PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY: (0, 255),
    PropertyTypeD18.DEFAULT_PUBLISHER_GROUP_ORDER: (1, 2),
    PropertyTypeD18.DYNAMIC_GROUPS: (0, 1),
}


def _fault(pair: KeyValue, draft: Draft) -> str:
    """What is wrong with a pair whose type the draft defines for tracks, or nothing."""
    type_, value = pair
    if not isinstance(value, int):
        return ""
    if type_ in _RANGES:
        low, high = _RANGES[type_]
        if not low <= value <= high:
            return f"{PropertyTypeD18(type_).name} is {value}, outside {low}..{high}"
    if type_ == PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT and value == 0 and draft is Draft.D16:
        return "DELIVERY_TIMEOUT is 0"
    return ""


@dataclass(frozen=True, slots=True)
class TrackPropertiesCodec:
    """The last field of a message: pairs up to its end, with the drafts' ranges checked.

    Only the pairs themselves are checked. What is inside IMMUTABLE can make the track malformed,
    but not end the session.
    """

    draft: Draft

    def read(self, reader: Reader, field: str) -> KeyValues:
        """Read them; a value out of range is a protocol violation."""
        start = reader.pos
        pairs = KEY_VALUES.read(reader, field)
        for pair in pairs:
            fault = _fault(pair, self.draft)
            if fault:
                reader.fail(field, fault, offset=start)
        return pairs

    def write(self, writer: Writer, value: KeyValues, field: str) -> None:
        """Write them."""
        for pair in value:
            fault = _fault(pair, self.draft)
            if fault:
                writer.fail(field, fault)
        KEY_VALUES.write(writer, value, field)


PUBLISHER_INSTANCE: Final = 0x4C4150
"""The type of a track property of ours: see :attr:`TrackProperties.publisher_instance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackProperties:
    """The properties of a track that the drafts define, with their defaults."""

    object_delivery_timeout: int | None = None
    """In milliseconds; None is none. Draft 16 calls it DELIVERY_TIMEOUT."""
    subgroup_delivery_timeout: int | None = None
    """In milliseconds; None is none. Draft 18."""
    max_cache_duration: int | None = None
    """In milliseconds; None is as long as the cache likes."""
    publisher_priority: int = DEFAULT_PRIORITY
    group_order: GroupOrder = GroupOrder.ASCENDING
    dynamic_groups: bool = False
    """Whether a subscriber may ask for a new group."""
    publisher_instance: int | None = None
    """A number that a publisher keeps for as long as it numbers its objects; a property of ours."""
    mandatory: tuple[int, ...] = ()
    """Draft 18: types that a relay must understand to serve the track. We know none of them, so
    any of them means UNSUPPORTED_EXTENSION (moq-transport-18, 2.5.1)."""
    malformed: bool = False
    """Whether IMMUTABLE can not be read, holds itself, or holds a value out of range: then the
    track is malformed (moq-transport-16, 11.1)."""

    @classmethod
    def of(cls, pairs: KeyValues, draft: Draft) -> TrackProperties:
        """The typed view of ``pairs``, as a message of ``draft`` carried them."""
        found: dict[int, int] = {}
        mandatory: list[int] = []
        malformed = False
        try:
            for type_, value in _flatten(pairs, draft):
                if type_ in _MANDATORY and draft is Draft.D18:
                    mandatory.append(type_)
                elif isinstance(value, int):
                    # The drafts do not say which of two counts; the first is what relays see first.
                    found.setdefault(type_, value)
        except MalformedError:
            malformed = True
        return cls(
            object_delivery_timeout=found.get(PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT) or None,
            subgroup_delivery_timeout=(
                found.get(PropertyTypeD18.SUBGROUP_DELIVERY_TIMEOUT) or None
                if draft is Draft.D18
                else None
            ),
            max_cache_duration=found.get(PropertyTypeD18.MAX_CACHE_DURATION),
            publisher_priority=found.get(
                PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, DEFAULT_PRIORITY
            ),
            group_order=GroupOrder(
                found.get(PropertyTypeD18.DEFAULT_PUBLISHER_GROUP_ORDER, GroupOrder.ASCENDING)
            ),
            dynamic_groups=found.get(PropertyTypeD18.DYNAMIC_GROUPS) == 1,
            publisher_instance=found.get(PUBLISHER_INSTANCE),
            mandatory=tuple(mandatory),
            malformed=malformed,
        )


def _flatten(pairs: KeyValues, draft: Draft) -> Iterator[KeyValue]:
    """The pairs, then those inside IMMUTABLE; :class:`MalformedError` if one of them is bad."""
    inner: list[KeyValue] = []
    for pair in pairs:
        if pair.type == PropertyTypeD18.IMMUTABLE_PROPERTIES and isinstance(pair.value, bytes):
            inner.extend(read_pairs(Reader(pair.value, integers=draft.integers)))
            continue
        _require(pair, draft)
        yield pair
    for pair in inner:
        if pair.type == PropertyTypeD18.IMMUTABLE_PROPERTIES:
            raise MalformedError("holds itself", field="IMMUTABLE")
        _require(pair, draft)
        yield pair


def _require(pair: KeyValue, draft: Draft) -> None:
    fault = _fault(pair, draft)
    if fault:
        raise MalformedError(fault)
