"""Control messages of MoQT, drafts 16 and 18: one message model, and the codec of each draft.

::

    messages              one dataclass for each control message, both drafts
        |
        v
    control               the layout of each message in each draft; type, length, body
        |
        +-- setup, parameters                setup options; parameters and track properties
        +-- keyvalue, structures             values behind types; locations, filters, tokens
        +-- codepoints, versions             assigned numbers; the drafts

    data                  subgroup streams, fetch streams, datagrams
    session               both ends of a session, without I/O
    errors                one class for each session termination code
    top_n                 our Top-N extension (docs/spec/top-n.md)

Import messages, parameters and the codec from here. Import setup options, structures, numbers and
errors from the module that defines them; ``data`` and ``session`` have doors of their own.

The package implements moq-transport-16, section 9, and moq-transport-18, section 10.
``docs/spec/moqt.md`` lists our choices.
"""

from laps_wire.moqt.control import ControlCodec, decode, encode
from laps_wire.moqt.messages import (
    STREAM_COUNT_UNKNOWN,
    AbsoluteJoiningFetch,
    ClientSetup,
    Fetch,
    FetchCancel,
    FetchOk,
    FetchTarget,
    Goaway,
    MaxRequestId,
    Message,
    NamespaceDone,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishNamespace,
    PublishNamespaceCancel,
    PublishNamespaceDone,
    PublishOk,
    RelativeJoiningFetch,
    RequestError,
    RequestOk,
    RequestsBlocked,
    RequestUpdate,
    ServerSetup,
    Setup,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
    Unsubscribe,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.versions import Draft

__all__ = [
    "NO_PARAMETERS",
    "STREAM_COUNT_UNKNOWN",
    "AbsoluteJoiningFetch",
    "ClientSetup",
    "ControlCodec",
    "Draft",
    "Fetch",
    "FetchCancel",
    "FetchOk",
    "FetchTarget",
    "Goaway",
    "MaxRequestId",
    "Message",
    "NamespaceDone",
    "NamespaceMessage",
    "Parameters",
    "Publish",
    "PublishBlocked",
    "PublishDone",
    "PublishNamespace",
    "PublishNamespaceCancel",
    "PublishNamespaceDone",
    "PublishOk",
    "RelativeJoiningFetch",
    "RequestError",
    "RequestOk",
    "RequestUpdate",
    "RequestsBlocked",
    "ServerSetup",
    "Setup",
    "StandaloneFetch",
    "Subscribe",
    "SubscribeNamespace",
    "SubscribeOk",
    "SubscribeTracks",
    "TrackStatus",
    "Unsubscribe",
    "decode",
    "encode",
]
