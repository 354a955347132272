"""Objects as the commands show them."""

from __future__ import annotations

import base64
from typing import Any

from laps_sdk.client.core.objects import Object

__all__ = ["record_of"]


def record_of(obj: Object) -> dict[str, Any]:
    """An object as JSON: the payload as text where it is text, as base64 where it is not."""
    record: dict[str, Any] = {
        "group": obj.group,
        "object": obj.object,
        "subgroup": obj.subgroup,
        "size": len(obj.payload),
    }
    if obj.status:
        record["status"] = obj.status.name
    if obj.latency is not None:
        record["latency_ms"] = round(obj.latency * 1000, 3)
    try:
        record["text"] = obj.payload.decode()
    except UnicodeDecodeError:
        record["base64"] = base64.b64encode(obj.payload).decode()
    return record
