"""Write ``demo/peering-conversation.jsonl``: two peering conversations to decode.

Two scenes. In the first one two relays of ours meet over ``laps-2``: they prove that they know the
network's key, tell each other what they have, and carry one track; all of it is written by the
codecs, proofs and hashes included. In the second one a C++ LAPS relay is the peer; its bytes are
those of ``tests/vectors/laps-cpp.json``, seen on the wire ("live") or written by its own code.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from laps_wire.hashing import KeyedHasher, track_hashes
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.data.subgroup import SubgroupWriter
from laps_wire.moqt.data.types import SubgroupHeader
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters as MoqtParameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp.codepoints import DRAFT16, NodeType
from laps_wire.peering.cpp.messages import ConnectResponse as CppConnectResponse
from laps_wire.peering.cpp.messages import NodeInfo as CppNodeInfo
from laps_wire.peering.cpp.messages import encode as encode_cpp
from laps_wire.peering.laps2 import encode
from laps_wire.peering.laps2.codepoints import (
    VERSION_2_0,
    AnnounceKind,
    AuthScheme,
    Bases,
    DataKind,
    Direction,
    Feature,
    Mode,
    ParameterId,
    PayloadFormat,
    RelayType,
    SubscribeCode,
)
from laps_wire.peering.laps2.fields import Parameters, Stamp
from laps_wire.peering.laps2.forwarding import DataHeader, encode_data_header
from laps_wire.peering.laps2.handshake import (
    HASH_CHECK_NAME,
    Challenge,
    Connect,
    ConnectResponse,
    Evidence,
    Proof,
    Settings,
    dialler_transcript,
    listener_transcript,
)
from laps_wire.peering.laps2.information import (
    AnnounceAdvertise,
    AnnounceInfo,
    Load,
    Location,
    NodeAdvertise,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    SubscribeAdvertise,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SubscribeWithdrawal,
)
from laps_wire.peering.laps2.messages import SnsAdvertise, SnsWithdraw, SyncBegin, SyncEnd

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "demo" / "peering-conversation.jsonl"
CPP = json.loads((ROOT / "tests" / "vectors" / "laps-cpp.json").read_text(encoding="utf-8"))

LONDON, SEATTLE, OSLO = (NodeId.parse(text) for text in ("20.1:0.7", "10.1:0.3", "20.1:0.9"))
KEY = hashlib.sha256(b"the key of the demo network").digest()
HASHER = KeyedHasher(KEY)
TRACK = FullTrackName(Namespace((b"demo", b"room1")), b"events")


def chunk(
    direction: str, time: float, protocol: str, stream: int | None, data: bytes, note: str
) -> dict[str, Any]:
    where = {} if stream is None else {"stream": stream}
    return {
        "dir": direction,
        "t": time,
        "proto": protocol,
        **where,
        "hex": data.hex(),
        "note": note,
    }


# Scene 1: laps-2


def node(node_id: NodeId, contact: str, place: Location, region: str, **more: Any) -> NodeSelf:
    stamp = Stamp(1_767_225_600_000, 1)
    return NodeSelf(node_id, RelayType.EDGE, stamp, (contact,), place, region, **more)


def settings() -> Parameters:
    check = HASHER.full_name(*HASH_CHECK_NAME)
    return Settings(hash_check=check, implementation="laps-relay/0.1").to_parameters()


def signed(transcript: bytes) -> bytes:
    return hmac.digest(KEY, transcript, "sha256")


def handshake() -> tuple[Connect, Challenge, Proof, ConnectResponse]:
    """Both sides know the key; each proves it over the other's challenge."""
    spki_hash = hashlib.sha256(b"london's TLS key").digest()
    evidence = Evidence(AuthScheme.SHARED_KEY, b"demo-2026")
    features = (Feature.DATAGRAMS,)
    seattle = node(SEATTLE, "seattle.example.net:33434", Location(-122.33, 47.61), "us-west")
    london = node(LONDON, "london.example.net:33434", Location(-0.13, 51.51), "eu")
    connect = Connect(
        (VERSION_2_0,),
        features,
        Mode.BOTH,
        Direction.BIDIRECTIONAL,
        hashlib.sha256(b"seattle's challenge").digest(),
        (AuthScheme.SHARED_KEY,),
        NodeInfo(seattle),
        settings(),
    )
    challenge = Challenge(
        VERSION_2_0,
        features,
        LONDON,
        hashlib.sha256(b"london's challenge").digest(),
        (AuthScheme.SHARED_KEY,),
    )
    proof = Proof(Mode.BOTH, Direction.BIDIRECTIONAL, evidence)
    transcript = dialler_transcript(connect, challenge, proof, spki_hash)
    proof = replace(proof, evidence=replace(evidence, signature=signed(transcript)))
    response = ConnectResponse(
        Mode.BOTH, Direction.BIDIRECTIONAL, NodeInfo(london), evidence, settings()
    )
    transcript = listener_transcript(connect, challenge, response, spki_hash)
    response = replace(response, evidence=replace(evidence, signature=signed(transcript)))
    return connect, challenge, proof, response


def laps2() -> list[dict[str, Any]]:
    connect, challenge, proof, response = handshake()
    fields = TRACK.namespace.fields
    full_name = HASHER.full_name(fields, TRACK.name)
    elements, name = HASHER.elements(fields), HASHER.name(TRACK.name)
    at_seattle, at_london = Stamp(1_767_225_600_000, 2), Stamp(1_767_225_600_000, 2)
    oslo = node(OSLO, "oslo.example.net:33434", Location(10.75, 59.91), "eu", load=Load(value=120))
    announce = AnnounceInfo(
        SEATTLE, at_seattle, AnnounceKind.TRACK, elements, name, full_name, TRACK
    )
    body = encode_subscribe_body(
        Subscribe(0, TRACK, MoqtParameters(subscriber_priority=128)), Draft.D16
    )
    subscribe = SubscribeInfo(
        LONDON, at_london, elements, name, full_name, data=SubscribeData(16, body)
    )
    digest = Parameters(((ParameterId.FULL_NAME_DIGEST, HASHER.end_check(fields, TRACK.name)),))
    accepted = SubscribeResponse(
        LONDON, full_name, at_london, SEATTLE, SubscribeCode.ACCEPTED, parameters=digest
    )
    gone = SubscribeWithdrawal(LONDON, Stamp(at_london.epoch, 3), full_name)
    header = DataHeader(DataKind.STREAM, 1, full_name, 0x5EA77E, 128, 5000, PayloadFormat.MOQT_16)
    objects = SubgroupWriter(SubgroupHeader(0, 41, 0, 128), Draft.D16)
    stream = objects.start + objects.object(0, b"goal! 2:1") + objects.object(1, b"replay")

    def say(direction: str, time: float, note: str, *messages: Any) -> dict[str, Any]:
        data = b"".join(encode(message) for message in messages)
        return chunk(direction, time, "laps-2", 0, data, note)

    return [
        {"title": "Two relays meet over laps-2", "left": "seattle", "right": "london"},
        say(">", 0.0, "Seattle dials: who it is, what it can, a challenge", connect),
        say("<", 0.133, "London answers with a challenge of its own", challenge),
        say(">", 0.134, "Seattle proves that it knows the network's key", proof),
        say("<", 0.267, "London does the same, and says who it is: the session stands", response),
        say(
            "<",
            0.268,
            "London tells all it has: one more relay, one hop behind it",
            SyncBegin(Bases.ALL),
            NodeAdvertise((NodeInfo(oslo, path=(NodePathItem(LONDON, 24_800),)),)),
            SyncEnd(Bases.ALL),
        ),
        say(">", 0.401, "Seattle has a publisher", AnnounceAdvertise((announce,))),
        say("<", 0.871, "London has a subscriber for it", SubscribeAdvertise((subscribe,))),
        say(">", 1.004, "The publisher's relay accepts, and proves the name", accepted),
        say(">", 1.005, "Data with SNS ID 1 is for London", SnsAdvertise(1, 1, 0, (LONDON,))),
        chunk(
            ">",
            1.006,
            "laps-2-data",
            2,
            encode_data_header(header) + stream,
            "One group of the track: a header of ours, then the publisher's MoQT bytes as they are",
        ),
        say("<", 9.5, "The last subscriber left", SubscribeWithdraw((gone,))),
        say(">", 9.633, "Nobody is left in the set", SnsWithdraw((1,))),
    ]


# Scene 2: the C++ relay


def live(name: str) -> bytes:
    return bytes.fromhex(next(item["hex"] for item in CPP["live"] if item["name"] == name))


def framed(kind: int, body: bytes) -> bytes:
    """A captured body with its header around it: version 1, type, length."""
    return b"\x01" + kind.to_bytes(2, "big") + len(body).to_bytes(4, "big") + body


def cpp() -> list[dict[str, Any]]:
    ours = NodeId(0x1122334455667788)
    hashes = track_hashes((b"demo/room1",), b"clk")
    relay_a = NodeId(0xB97E0EF037B17F89)
    answer = CppConnectResponse(0, CppNodeInfo(ours, NodeType.EDGE, b"laps-python"))
    subscribe = live("subscribe_data_draft16").replace(b"\x06events", b"\x03clk")
    info = (
        (1).to_bytes(2, "big")
        + ours.to_bytes(8, "big")
        + hashes.namespace.to_bytes(8, "big")
        + hashes.name.to_bytes(8, "big")
        + hashes.fullname.to_bytes(8, "big")
        + len(subscribe).to_bytes(4, "big")
        + subscribe
    )
    announced = relay_a.to_bytes(8, "big") + live("announce_track")
    # The capture ends behind the first object's length, 26; the payload here is ours.
    stream = live("stream") + b"2026-01-01T00:00:00.000000"

    def say(direction: str, time: float, note: str, data: bytes) -> dict[str, Any]:
        return chunk(direction, time, "laps-cpp", 0, data, note)

    return [
        {"title": "A C++ LAPS relay dials ours", "left": "relay-a", "right": "laps-python"},
        say(">", 0.0, "As captured: the first message of a real lapsRelay", live("connect")),
        say("<", 0.001, "We answer in its protocol", encode_cpp(answer, DRAFT16)),
        say(">", 0.007, "It has a publisher; names are in the clear here", framed(8, announced)),
        say("<", 2.114, "We have a subscriber; inside is its MoQT SUBSCRIBE", framed(6, info)),
        say(">", 2.121, "It makes a set for us, as captured", framed(10, live("sns_advertised"))),
        chunk(
            ">",
            2.122,
            "laps-cpp-data",
            2,
            stream,
            "The start of a data stream, as captured but for the payload",
        ),
        say("<", 7.5, "Our subscriber left", framed(7, info)),
        say(
            ">", 7.507, "The set is gone 7 ms later, as captured", framed(11, live("sns_withdrawn"))
        ),
    ]


def lines() -> list[dict[str, Any]]:
    return [*laps2(), *cpp()]


def main() -> None:
    TARGET.parent.mkdir(exist_ok=True)
    text = "".join(f"{json.dumps(line)}\n" for line in lines())
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
