"""Message parameters: one model for both drafts, and which message may carry which.

A parameter is optional, so a message's parameters are a dataclass with a field for each one, None
where it is absent::

    Parameters(subscriber_priority=128, group_order=GroupOrder.ASCENDING)

Nothing is lost by that: types stand in ascending order on the wire, and only AUTHORIZATION_TOKEN
may repeat. How they are written is in :mod:`laps_wire.moqt.parameter_coding`.

A parameter in a message that does not define it must be ignored in draft 16 (9.2.2) and ends the
session in draft 18 (10.2.1). What draft 16 ignores is kept in ``ignored``, unread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.structures import Location, SubscriptionFilter, Token
from laps_wire.names import Namespace

__all__ = ["NO_PARAMETERS", "Parameters", "Scope"]


class Scope(Enum):
    """What carries parameters.

    A decoder knows the message; REQUEST_UPDATE and REQUEST_OK also depend on the request that they
    belong to, which only the session knows. It checks those again with the narrower scope below
    (:func:`laps_wire.moqt.parameter_coding.check_scope`).
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
