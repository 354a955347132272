"""How message parameters are written: the second strategy in which the drafts differ.

::

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

A value out of range is a PROTOCOL_VIOLATION. A Token, and draft 16's Location, that does not have
its form is a KEY_VALUE_FORMATTING_ERROR; a filter that does not is a PROTOCOL_VIOLATION (9.2.2.5).
An unknown type is a PROTOCOL_VIOLATION in both drafts, unless an extension was negotiated for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import ProtocolViolation
from laps_wire.fields import U8, VARINT, Choice, Constrained, FieldCodec
from laps_wire.moqt.codepoints import GroupOrder, ParameterTypeD16, ParameterTypeD18
from laps_wire.moqt.keyvalue import KeyValue, read_value
from laps_wire.moqt.parameters import Parameters, Scope
from laps_wire.moqt.structures import LOCATION, TOKEN, FilterCodec
from laps_wire.moqt.typed import Enclosed, Entry, Flag, read_entries, write_entries
from laps_wire.moqt.versions import Draft
from laps_wire.names import NAMESPACE_PREFIX
from laps_wire.varint import QUIC_MAX

__all__ = ["ParametersCodec", "check_scope", "entries_of"]

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
