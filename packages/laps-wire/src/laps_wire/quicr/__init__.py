"""QuicR: names, control messages, datagrams, fragments, reassembly and manifests.

::

    quicr:// URL (quicrurl) -> ShortName (shortname) -> prefixes: which sessions get an object

    control stream    control      16-bit length, type, body
                         |
                      media        messages of seed 001: media streams of groups and objects
                      named        messages of seed 003: named data
                         |
                      fields, codepoints

    object -> fragments -> datagram -> bytes        split and send
    bytes -> datagram -> reassembly -> object       any order, bounded memory
    FRAGMENT -> sequence -> object                  stream mode: strict order

    manifest          which names there are to subscribe to, as JSON

Import from here; ``quicrurl`` also has the text form of media times.

The package implements seeds 001, 002 and 003. ``docs/spec/quicr.md`` and ``docs/spec/names.md``
list our choices.
"""

from laps_wire.quicr.codepoints import (
    MAX_MESSAGE,
    MAX_NAMES,
    MAX_ORIGIN,
    MAX_REASON,
    MAX_RELAY_ADDRESS,
    RESERVED_DATAGRAM_STREAM_ID,
    Flags,
    MessageType,
    Response,
    SubscribeIntent,
)
from laps_wire.quicr.control import LAYOUTS, Message, decode, encode, read_message, type_of
from laps_wire.quicr.datagram import (
    DatagramFragment,
    DatagramHeader,
    decode_datagram,
    decode_header,
    encode_datagram,
    encode_header,
    encode_publish,
    read_header,
    split_to_datagrams,
)
from laps_wire.quicr.fragments import (
    MAX_FRAGMENT_NUMBER,
    MAX_OFFSET,
    MIN_FRAGMENT_ID,
    Piece,
    pack_fragment_id,
    pack_offset_and_fin,
    split_numbered,
    split_offsets,
    unpack_place,
)
from laps_wire.quicr.manifest import (
    MAX_MANIFEST,
    Channel,
    ChannelManifest,
    ConferenceManifest,
    Manifest,
    ManifestPublisher,
    ManifestSource,
    ManifestStream,
    StreamingManifest,
    format_manifest,
    parse_manifest,
)
from laps_wire.quicr.media import (
    Fin,
    Fragment,
    PublishIntent,
    PublishIntentOk,
    RelayRedirect,
    StartPoint,
    SubscribeCancel,
    SubscribeDatagram,
    SubscribeReply,
    SubscribeStream,
    SubscriptionExpiry,
)
from laps_wire.quicr.named import (
    NamedPublishIntent,
    NamedPublishIntentOk,
    NamedSubscribeCancel,
    NamedSubscribeReply,
    NamedSubscriptionExpiry,
    Publish,
    Subscribe,
    SyncCatchup,
)
from laps_wire.quicr.prefixes import PrefixChange, RelayPrefixes, SessionPrefixes
from laps_wire.quicr.quicrurl import QuicrUrl
from laps_wire.quicr.reassembly import (
    OBJECT_COST,
    PIECE_COST,
    Drop,
    NumberedPieces,
    OffsetPieces,
    Reassembler,
    ReassemblyLimits,
)
from laps_wire.quicr.sequence import FragmentSequence, FragmentSequenceError
from laps_wire.quicr.shortname import BITS, CONFERENCE, NameLayout, ShortName

__all__ = [
    "BITS",
    "CONFERENCE",
    "LAYOUTS",
    "MAX_FRAGMENT_NUMBER",
    "MAX_MANIFEST",
    "MAX_MESSAGE",
    "MAX_NAMES",
    "MAX_OFFSET",
    "MAX_ORIGIN",
    "MAX_REASON",
    "MAX_RELAY_ADDRESS",
    "MIN_FRAGMENT_ID",
    "OBJECT_COST",
    "PIECE_COST",
    "RESERVED_DATAGRAM_STREAM_ID",
    "Channel",
    "ChannelManifest",
    "ConferenceManifest",
    "DatagramFragment",
    "DatagramHeader",
    "Drop",
    "Fin",
    "Flags",
    "Fragment",
    "FragmentSequence",
    "FragmentSequenceError",
    "Manifest",
    "ManifestPublisher",
    "ManifestSource",
    "ManifestStream",
    "Message",
    "MessageType",
    "NameLayout",
    "NamedPublishIntent",
    "NamedPublishIntentOk",
    "NamedSubscribeCancel",
    "NamedSubscribeReply",
    "NamedSubscriptionExpiry",
    "NumberedPieces",
    "OffsetPieces",
    "Piece",
    "PrefixChange",
    "Publish",
    "PublishIntent",
    "PublishIntentOk",
    "QuicrUrl",
    "Reassembler",
    "ReassemblyLimits",
    "RelayPrefixes",
    "RelayRedirect",
    "Response",
    "SessionPrefixes",
    "ShortName",
    "StartPoint",
    "StreamingManifest",
    "Subscribe",
    "SubscribeCancel",
    "SubscribeDatagram",
    "SubscribeIntent",
    "SubscribeReply",
    "SubscribeStream",
    "SubscriptionExpiry",
    "SyncCatchup",
    "decode",
    "decode_datagram",
    "decode_header",
    "encode",
    "encode_datagram",
    "encode_header",
    "encode_publish",
    "format_manifest",
    "pack_fragment_id",
    "pack_offset_and_fin",
    "parse_manifest",
    "read_header",
    "read_message",
    "split_numbered",
    "split_offsets",
    "split_to_datagrams",
    "type_of",
    "unpack_place",
]
