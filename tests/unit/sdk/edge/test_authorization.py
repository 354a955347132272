"""The border with whoever decides about requests."""

from __future__ import annotations

from laps_relay.server.auth import TokenAuthorizer
from laps_sdk.edge.authorization import Action, Authorizer, Decision

# For the type checker: this line fails if one side of the border moves alone.
AUTHORIZER: type[Authorizer] = TokenAuthorizer


def test_the_actions_are_numbered_as_in_the_draft() -> None:
    assert [action.name for action in sorted(Action)] == [
        "CLIENT_SETUP",
        "SERVER_SETUP",
        "PUBLISH_NAMESPACE",
        "SUBSCRIBE_NAMESPACE",
        "SUBSCRIBE",
        "REQUEST_UPDATE",
        "PUBLISH",
        "FETCH",
        "TRACK_STATUS",
    ]
    assert [int(action) for action in sorted(Action)] == list(range(9))


def test_a_denial_names_no_tenant() -> None:
    assert not Decision(allowed=False).tenant
