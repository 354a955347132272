from __future__ import annotations

from laps_sdk.errors import (
    RequestRefusedError,
    SessionClosedError,
    SubscriptionEndedError,
    code_name,
)
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.messages import PublishDone, RequestError
from laps_wire.moqt.versions import Draft


def test_codes_have_names_or_numbers() -> None:
    assert code_name(0x10, SessionCode) == "GOAWAY_TIMEOUT"
    assert code_name(0x4242, SessionCode) == "0x4242"


def test_errors_say_what_the_relay_answered() -> None:
    refused = RequestRefusedError("SUBSCRIBE demo--x", RequestError(None, 0x10))
    assert str(refused) == "SUBSCRIBE demo--x: the relay answered DOES_NOT_EXIST"
    assert refused.retry_after is None
    # The drafts swapped these two codes.
    names = [
        SubscriptionEndedError("x", PublishDone(None, 5, 0, "slow"), draft).code_name
        for draft in (Draft.D16, Draft.D18)
    ]
    assert names == ["EXPIRED", "TOO_FAR_BEHIND"]
    closed = SessionClosedError.of(0, "", by_peer=False)
    assert str(closed) == "session closed by this side with NO_ERROR"
