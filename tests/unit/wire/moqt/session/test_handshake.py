from __future__ import annotations

import pytest

from laps_wire.errors import RemoteError, StateError
from laps_wire.moqt.errors import InvalidAuthority, InvalidPath
from laps_wire.moqt.session.config import Role, SessionConfig, SessionLimits, Transport
from laps_wire.moqt.session.core import check_options, own_options
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from laps_wire.moqt.versions import Draft

PATH = SetupOptions(path="/live?x=1")
AUTHORITY = SetupOptions(authority="relay.example:443")


@pytest.mark.parametrize("options", [PATH, AUTHORITY, SetupOptions()])
def test_a_client_over_quic_says_where_it_goes(options: SetupOptions) -> None:
    check_options(options, Role.CLIENT, Transport.QUIC)


@pytest.mark.parametrize(
    ("sender", "transport", "where"),
    [
        (Role.SERVER, Transport.QUIC, "from a server"),
        (Role.SERVER, Transport.WEBTRANSPORT, "from a server"),
        (Role.CLIENT, Transport.WEBTRANSPORT, "over WebTransport"),
    ],
)
@pytest.mark.parametrize(("options", "error"), [(PATH, InvalidPath), (AUTHORITY, InvalidAuthority)])
def test_nobody_else_does(
    sender: Role, transport: Transport, where: str, options: SetupOptions, error: type[RemoteError]
) -> None:
    check_options(SetupOptions(max_request_id=3), sender, transport)
    with pytest.raises(error, match=where):
        check_options(options, sender, transport)


@pytest.mark.parametrize(("draft", "maximum"), [(Draft.D16, 20), (Draft.D18, None)])
def test_our_setup_tells_our_limits(draft: Draft, maximum: int | None) -> None:
    config = SessionConfig(
        draft=draft,
        role=Role.CLIENT,
        options=PATH,
        limits=SessionLimits(max_requests=10, max_token_cache=99),
    )
    assert own_options(config) == SetupOptions(
        path="/live?x=1", max_request_id=maximum, max_auth_token_cache_size=99
    )


def test_no_cache_is_the_default_and_need_not_be_told() -> None:
    limits = SessionLimits(max_token_cache=0)
    config = SessionConfig(draft=Draft.D18, role=Role.SERVER, limits=limits)
    assert own_options(config) == SetupOptions()


@pytest.mark.parametrize(
    "tokens",
    [
        (Token.use_alias(1),),
        (Token.delete(1),),
        (Token.use_value(0, b"x"), Token.use_value(0, b"x")),
        (Token.register(1, 0, b"x"), Token.register(1, 0, b"y")),
    ],
    ids=["use", "delete", "same token", "same alias"],
)
def test_our_tokens_are_held_to_the_rules(tokens: tuple[Token, ...]) -> None:
    # Our own mistake, so not the error that says that the peer made one.
    options = SetupOptions(authorization_tokens=tokens)
    config = SessionConfig(draft=Draft.D18, role=Role.CLIENT, options=options)
    with pytest.raises(StateError, match="our own SETUP"):
        own_options(config)


@pytest.mark.parametrize("options", [PATH, AUTHORITY])
def test_our_setup_is_held_to_the_rules(options: SetupOptions) -> None:
    config = SessionConfig(draft=Draft.D16, role=Role.SERVER, options=options)
    with pytest.raises(StateError, match="our own SETUP"):
        own_options(config)
