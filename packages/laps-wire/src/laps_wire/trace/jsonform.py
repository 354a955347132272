"""A decoding as JSON-able data: one object for each message, its fields flat, with paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from laps_wire.trace.decode import Decoded, Fault, Status, Traced
from laps_wire.trace.tree import Node
from laps_wire.trace.values import text_of

__all__ = ["as_dicts", "fault_dict"]


def as_dicts(decoded: Decoded) -> Iterator[dict[str, Any]]:
    """Every message; the last one has the fault, if there is one."""
    last = len(decoded.messages) - 1
    for index, traced in enumerate(decoded.messages):
        yield _message(decoded, traced, decoded.fault if index == last else None)
    if not decoded.messages and decoded.fault is not None:
        yield {"protocol": decoded.protocol.name, "error": fault_dict(decoded.fault)}


def _message(decoded: Decoded, traced: Traced, fault: Fault | None) -> dict[str, Any]:
    start, end = traced.root.start, traced.root.end
    plain: dict[str, Any] = {
        "protocol": decoded.protocol.name,
        "message": traced.name,
        "offset": start,
        "length": end - start,
        "fields": [_field(path, leaf, decoded.data) for path, leaf in traced.root.leaves()],
    }
    if fault is not None:
        plain["error"] = fault_dict(fault)
    return plain


def _field(path: str, leaf: Node, data: bytes) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "path": path,
        "offset": leaf.start,
        "length": leaf.end - leaf.start,
        "hex": data[leaf.start : leaf.end].hex(),
    }
    value = leaf.value
    if isinstance(value, bytes):
        text = text_of(value)
        if text is not None:
            plain["text"] = text
    elif isinstance(value, float) and (value != value or value in {float("inf"), -float("inf")}):  # noqa: PLR0124 - NaN
        plain["value"] = str(value)  # JSON has no word for it
    else:
        plain["value"] = value
    if leaf.note:
        plain["note"] = leaf.note
    return plain


def fault_dict(fault: Fault) -> dict[str, Any]:
    """What stopped the reading."""
    plain: dict[str, Any] = {
        "kind": "incomplete" if fault.status is Status.INCOMPLETE else "bad",
        "path": fault.path,
        "reason": fault.reason,
        "offset": fault.offset,
        "length": fault.end - fault.offset,
    }
    if fault.code is not None:
        plain["code"] = fault.code
    if fault.missing:
        plain["missing"] = fault.missing
    return plain
