"""A second decoder of laps-2, written from docs/spec/laps-2.md alone: dicts, nothing shared.

It is the other side of differential tests, slow and without words: a refusal is a close code.
Numbers in brackets are sections of the page. Never copy anything from the package into it: where
the two differ, the page decides.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

VIOLATION, UNKNOWN_MESSAGE, TOO_LARGE, UNKNOWN_KIND = 0x3, 0x9, 0xA, 0x4C04

Fields: TypeAlias = dict[str, Any]


class Refused(Exception):  # noqa: N818 - not an error of ours
    """Bytes against the page; ``code`` is what the session or the stream ends with."""

    def __init__(self, code: int = VIOLATION) -> None:
        super().__init__(hex(code))
        self.code = code


class More(Exception):  # noqa: N818 - no error at all
    """The bytes are the beginning of something."""


def need(condition: object, code: int = VIOLATION) -> None:
    if not condition:
        raise Refused(code)


class Input:
    def __init__(self, data: bytes, short: Callable[[], Exception] = Refused) -> None:
        self.data, self.pos, self.short = data, 0, short

    def take(self, count: int) -> bytes:
        if len(self.data) - self.pos < count:
            raise self.short()
        self.pos += count
        return self.data[self.pos - count : self.pos]


# Types (1.1): functions that take a value from the input.

Type: TypeAlias = Callable[[Input], Any]


def i(source: Input) -> int:
    first = source.take(1)[0]
    rest = source.take((1 << (first >> 6)) - 1)
    return int.from_bytes(bytes([first & 0x3F]) + rest, "big")


def u32(source: Input) -> int:
    return int.from_bytes(source.take(4), "big")


def u64(source: Input) -> int:
    return int.from_bytes(source.take(8), "big")


def f64(source: Input) -> Any:
    return struct.unpack(">d", source.take(8))[0]


def checked(inner: Type, rule: Callable[[Any], object]) -> Type:
    def read(source: Input) -> Any:
        value = inner(source)
        need(rule(value))
        return value

    return read


def number(low: int, high: int) -> Type:
    return checked(i, lambda value: low <= value <= high)


def blob(limit: int) -> Type:
    length = number(0, limit)
    return lambda source: source.take(length(source))


def text(limit: int, *, lenient: bool = False) -> Type:
    def read(source: Input) -> str:
        raw: bytes = blob(limit)(source)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            need(lenient)
        return raw.decode(errors="replace").replace("\ufffd", "?")

    return read


def many(item: Type, limit: int, least: int = 0) -> Type:
    count = number(least, limit)
    return lambda source: [item(source) for _ in range(count(source))]


def ascending(values: list[Any]) -> bool:
    return all(a < b for a, b in pairwise(values))


def sorted_set(item: Type, limit: int, least: int = 0) -> Type:
    return checked(many(item, limit, least), ascending)


there = number(0, 1)  # of one byte: the other forms of a varint begin with 0x40 and more


def maybe(inner: Type) -> Type:
    return lambda source: inner(source) if there(Input(source.take(1))) else None


def pair(first: Type, second: Type) -> Type:
    return lambda source: (first(source), second(source))


def structure(fields: dict[str, Type]) -> Type:
    return lambda source: {name: kind(source) for name, kind in fields.items()}


SNS_ID = checked(u32, bool)

# The names of types in TABLES (1.1, 9).
NAMED: dict[str, Type] = {
    "i": i,
    "positive": checked(i, bool),
    "u64": u64,
    "node": u64,
    "hash": u64,
    "parameters": checked(
        many(pair(i, blob(4096)), 64), lambda value: ascending([key for key, _ in value])
    ),
    "versions": sorted_set(i, 8, least=1),
    "features": sorted_set(i, 64),
    "schemes": sorted_set(i, 16, least=1),
    "mode": number(0, 2),
    "direction": number(0, 1),
    "challenge": lambda source: source.take(32),
    "reason": text(1024, lenient=True),
    "contacts": many(text(255), 8),
    "relay_type": number(0, 3),
    "location": maybe(checked(pair(f64, f64), lambda v: abs(v[0]) <= 180 and abs(v[1]) <= 90)),
    "region": text(64),
    "load": pair(number(0, 3), number(0, 1000)),
    "reachable": many(pair(u64, i), 256),
    "path": many(pair(u64, i), 16),
    "labels": many(pair(text(64), text(255)), 32),
    "fingerprint": checked(blob(32), lambda value: len(value) in (0, 32)),
    "signature": blob(1024),
    "credential": blob(8192),
    "kind": number(0, 1),
    "hashes": many(u64, 32),
    "maybe_hash": maybe(u64),
    "maybe_i": maybe(i),
    "elements": checked(many(blob(4096), 32, least=1), all),
    "name": blob(4096),
    "body": blob(16_384),
    "bases": number(1, 15),
    "sns_id": SNS_ID,
    "hops": number(0, 16),
    "groups": number(1, 4096),
    "bool": lambda source: there(Input(source.take(1))),
    "targets": sorted_set(u64, 4096),
    "sns_ids": sorted_set(SNS_ID, 1024),
    "padding": blob(4096),
    "plan_id": blob(64),
    "state": number(0, 3),
    "digest": blob(32),
}

# Structures and messages, as the page lists them: a field, and its type if that has another name.
TABLES = """
stamp: epoch i, sequence i
evidence: scheme i, credential, signature
node_self: node_id node, relay_type, stamp, contacts, location, region, load, reachable, labels, parameters
node_signature: scheme i, fingerprint, signature
node_info: node node_self, signature node_signature, path, parameters
data: draft i, body
plain_name: elements, name
announce: source node, stamp, kind, element_hashes hashes, name_hash maybe_hash, full_name_hash hash, plaintext maybe_plain_name, parameters
announce_gone: source node, stamp, kind, full_name_hash hash, parameters
subscribe: source node, stamp, element_hashes hashes, name_hash hash, full_name_hash hash, scope labels, data, parameters
subscribe_gone: source node, stamp, full_name_hash hash, parameters
run: group i, groups, subgroup i, object i, ended bool
track: full_name_hash hash, runs
0x01 PROBE: probe_id i, target node, timestamp u64, padding, parameters
0x02 CONNECT: versions, features, mode, direction, challenge, schemes, node_info, parameters
0x03 PROBE_RESPONSE: probe_id i, target node, timestamp u64, delay_us i, rtt_us maybe_i, padding, parameters
0x04 CHALLENGE: version i, features, node_id node, challenge, schemes, parameters
0x06 PROOF: mode, direction, evidence, parameters
0x08 CONNECT_RESPONSE: mode, direction, node_info, evidence, parameters
0x0a CONNECT_REFUSED: code positive, reason, retry_after_ms i, redirect contacts, parameters
0x0c CONTROL_LATCH: generation i, parameters
0x0e KEEPALIVE: parameters
0x10 NODE_ADVERTISE: nodes node_infos, parameters
0x12 NODE_WITHDRAW: nodes targets, parameters
0x14 ANNOUNCE_ADVERTISE: announces, parameters
0x16 ANNOUNCE_WITHDRAW: announces announce_gones, parameters
0x18 SUBSCRIBE_ADVERTISE: subscribes, parameters
0x1a SUBSCRIBE_WITHDRAW: subscribes subscribe_gones, parameters
0x1c SUBSCRIBE_RESPONSE: source node, full_name_hash hash, stamp, responder node, code i, reason, retry_after_ms i, data, parameters
0x1e SYNC_REQUEST: bases, parameters
0x20 SYNC_BEGIN: bases, parameters
0x22 SYNC_END: bases, parameters
0x24 SNS_ADVERTISE: sns_id, set_version positive, hops, targets, parameters
0x26 SNS_UPDATE: sns_id, set_version positive, add targets, remove targets, parameters
0x28 SNS_WITHDRAW: sns_ids, parameters
0x2a SNS_REFUSED: sns_id, set_version i, code i, targets, parameters
0x2c DRAIN: deadline_ms i, reason, alternates contacts, parameters
0x2e FETCH_REQUEST: source node, target node, fetch_id sns_id, hops, element_hashes hashes, name_hash hash, full_name_hash hash, scope labels, data, parameters
0x30 FETCH_RESPONSE: source node, fetch_id sns_id, responder node, hops, code i, reason, retry_after_ms i, data, parameters
0x32 FETCH_CANCEL: source node, target node, fetch_id sns_id, hops, parameters
0x34 STAY: parameters
0x36 POSITION: source node, target node, hops, tracks, parameters
0x38 RESUME: source node, target node, hops, tracks, parameters
0x3a RESUME_RESPONSE: source node, target node, hops, tracks, parameters
"""  # noqa: E501 - one structure is one line


def announce_rule(value: Fields) -> bool:
    track, plain = value["kind"] == 0, value["plaintext"]
    if (value["name_hash"] is not None) != track:
        return False
    return plain is None or (
        len(plain["elements"]) == len(value["element_hashes"]) and (track or not plain["name"])
    )


# What holds between the fields of one structure.
RULES: dict[str, Callable[[Fields], object]] = {
    "node_signature": lambda v: v["scheme"] or not v["signature"],
    "data": lambda v: v["draft"] or not v["body"],
    "plain_name": lambda v: sum(map(len, v["elements"])) + len(v["name"]) <= 4096,
    "announce": announce_rule,
    "CONNECT": lambda v: not v["node_info"]["path"],
    "CONNECT_RESPONSE": lambda v: not v["node_info"]["path"],
    "SNS_UPDATE": lambda v: not set(v["add"]) & set(v["remove"]),
}

NAMES: dict[int, str] = {}
for line in TABLES.strip().splitlines():
    *digits, title = line.partition(":")[0].split()
    items = [item.split() for item in line.partition(":")[2].split(",")]
    table = structure({item[0]: NAMED[item[-1]] for item in items})
    NAMED[title] = checked(table, RULES.get(title, lambda _: True))
    NAMED[f"{title}s"] = many(NAMED[title], 1024)
    NAMED[f"maybe_{title}"] = maybe(NAMED[title])
    if digits:
        NAMES[int(digits[0], 16)] = title


def decode(data: bytes, limit: int = 65_536) -> tuple[str | None, Fields, int]:
    """The first message and where the next begins; without a name if it is stepped over (3.1)."""
    source = Input(data, More)
    kind = i(source)
    need(kind in NAMES or kind % 2, UNKNOWN_MESSAGE)
    length = i(source)
    need(length <= limit, TOO_LARGE)
    body = Input(source.take(length))
    if kind not in NAMES:
        return None, {}, source.pos
    fields = NAMED[NAMES[kind]](body)
    need(body.pos == length)
    return NAMES[kind], fields, source.pos


def decode_header(data: bytes) -> tuple[Fields, int]:
    """A data header and where the payload begins (7.1)."""
    source = Input(data, More)
    size = source.take(1)[0]
    need(size >= 24)
    kind_flags = source.take(1)[0]
    need(kind_flags >> 4 in (1, 2), UNKNOWN_KIND)
    priority, payload_format = source.take(2)
    sns_id, track, context, ttl_ms = struct.unpack(">IQII", source.take(20))
    fields = {
        "kind": kind_flags >> 4,
        "sns_id": sns_id,
        "track": track,
        "context": context,
        "priority": priority,
        "ttl_ms": ttl_ms,
        "payload_format": payload_format,
        "flags": kind_flags & 15,
        "extensions": source.take(size - 24),
    }
    return fields, size


def later(a: int, b: int) -> bool:
    """Whether SNS ID b is later than a (6.1)."""
    return 0 < (b - a) % (2**32 - 1) <= 2**31 - 1


def following(a: int) -> int:
    return 1 if a == 2**32 - 1 else a + 1


def connect_transcript(
    role: str, connect: Fields, challenge: Fields, answer: Fields, spki: bytes
) -> bytes:
    """What the evidence in PROOF (a dialler's) or CONNECT_RESPONSE (a listener's) signs (4.2)."""
    label = f"laps-2 connect proof {role}".encode()
    node, evidence = connect["node_info"]["node"], answer["evidence"]
    return b"".join(
        [
            bytes([len(label)]) + label,
            challenge["challenge"],
            connect["challenge"],
            struct.pack(">QQQ", node["node_id"], node["stamp"]["epoch"], challenge["node_id"]),
            spki,
            struct.pack(">QH", challenge["version"], len(challenge["features"])),
            *(feature.to_bytes(8, "big") for feature in challenge["features"]),
            struct.pack(
                ">BBQL",
                answer["mode"],
                answer["direction"],
                evidence["scheme"],
                len(evidence["credential"]),
            ),
            evidence["credential"],
        ]
    )
