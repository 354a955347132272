"""From the wire's object to the application's."""

from __future__ import annotations

from laps_sdk.client.objects import Object
from laps_wire.moqt.data import Extensions, MoqObject, ObjectExtensions, object_extensions
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.versions import Draft

__all__ = ["open_extensions", "to_object"]

_NONE = ObjectExtensions(Extensions())


def open_extensions(item: MoqObject, draft: Draft) -> ObjectExtensions:
    """An object's extensions; ``RemoteError`` if they make its track malformed."""
    return object_extensions(item.header, draft) if item.header.extensions else _NONE


def to_object(item: MoqObject, opened: ObjectExtensions, received_at: float) -> Object:
    """The object as applications see it."""
    header = item.header
    extensions = opened.extensions
    pairs: KeyValues = extensions.pairs
    if extensions.immutable:
        pairs = (*pairs, *extensions.immutable)
    return Object(
        header.group_id,
        header.object_id,
        item.payload,
        header.subgroup_id,
        header.priority,
        pairs,
        received_at,
        header.status,
    )
