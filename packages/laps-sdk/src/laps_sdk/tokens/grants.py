"""Scopes as text, for command lines and configuration files.

::

    publish,subscribe:example.2enet-team2/*
    '---------------' '-----------------' '- any longer namespace too
        actions         namespace, as laps_wire writes it

    subscribe:example.2enet-team2               this namespace, any track
    subscribe:example.2enet-team2--report       this track
    subscribe:example.2enet-team2--video*       tracks whose name begins with video
    subscribe:example.2enet-team2--*json        tracks whose name ends with json
    subscribe:example.2enet-user.2d*            namespaces whose last field begins with user-
    all:*                                       everything

``*`` itself cannot be part of a name in this form: the text form of names escapes it.
"""

from __future__ import annotations

from typing import Final

from laps_sdk.tokens.claims import Action, Match, MatchKind, Scope
from laps_wire.errors import TextFormError
from laps_wire.names import FullTrackName, Namespace

__all__ = ["format_scope", "parse_scope"]

_EXAMPLE: Final = "publish,subscribe:example.2enet-team2/*"
_GROUPS: Final = {
    "all": frozenset(Action),
    "pub": frozenset({Action.CLIENT_SETUP, Action.PUBLISH_NAMESPACE, Action.PUBLISH}),
    "sub": frozenset(
        {
            Action.CLIENT_SETUP,
            Action.SUBSCRIBE_NAMESPACE,
            Action.SUBSCRIBE,
            Action.REQUEST_UPDATE,
            Action.FETCH,
            Action.TRACK_STATUS,
        }
    ),
}
"""Words that stand for several actions."""


def parse_scope(text: str) -> Scope:
    """Read one scope; raises ``TextFormError`` for bad text."""
    words, colon, names = text.partition(":")
    if not colon:
        raise _fault(text, len(text), "no ':' between actions and names")
    actions: set[int] = set()
    for word in words.split(","):
        found = _action(word.strip())
        if found is None:
            known = ", ".join([*_GROUPS, *(action.name.lower() for action in Action)])
            raise _fault(text, text.find(word), f"unknown action {word!a} (known: {known})")
        actions |= found
    if names == "*":
        return Scope(actions=frozenset(actions))
    longer = names.endswith("/*")
    namespace_text, parted, track_text = names.removesuffix("/*").partition("--")
    if longer and parted:
        raise _fault(text, len(text), "'/*' follows a namespace, not a track name")
    if longer and not namespace_text:
        # Most likely a variable that was empty: it must not turn into a grant of everything.
        raise _fault(text, text.find(":") + 1, "no namespace before '/*'; everything is '*' alone")
    fields = _namespace(namespace_text)
    track = _pattern(track_text) if parted else None
    if track is not None and track.kind is MatchKind.PREFIX and not track.value:
        track = None
    return Scope(actions=frozenset(actions), namespace=fields, whole=not longer, track=track)


def format_scope(scope: Scope) -> str:
    """Write a scope. A part that :func:`parse_scope` cannot read is written with ``?``."""
    known = {action.value for action in Action}
    names = next((word for word, group in _GROUPS.items() if group == scope.actions), None)
    if names is None:
        names = ",".join(
            Action(number).name.lower() if number in known else f"?{number}"
            for number in sorted(scope.actions)
        )
    if not scope.namespace and not scope.whole:
        return f"{names}:*"
    fields = "-".join(_show(match, namespace=True) for match in scope.namespace)
    if scope.track is not None:
        # Text has no form for "any longer namespace, and this track": show it all the same.
        longer = "" if scope.whole else "/*"
        return f"{names}:{fields}{longer}--{_show(scope.track, namespace=False)}"
    return f"{names}:{fields}" if scope.whole else f"{names}:{fields}/*"


def _action(word: str) -> frozenset[int] | None:
    if word in _GROUPS:
        return frozenset(int(action) for action in _GROUPS[word])
    try:
        return frozenset({int(Action[word.upper().replace("-", "_")])})
    except KeyError:
        return None


def _namespace(text: str) -> tuple[Match, ...]:
    return tuple(_pattern(part, namespace=True) for part in text.split("-")) if text else ()


def _pattern(text: str, *, namespace: bool = False) -> Match:
    if text.startswith("*") and text != "*":
        return Match(_bytes(text[1:], namespace=namespace), MatchKind.SUFFIX)
    if text.endswith("*"):
        return Match(_bytes(text[:-1], namespace=namespace), MatchKind.PREFIX)
    return Match(_bytes(text, namespace=namespace))


def _bytes(text: str, *, namespace: bool) -> bytes:
    if namespace and text:
        return Namespace.parse(text).fields[0]
    return FullTrackName.parse(f"--{text}").name


def _show(match: Match, *, namespace: bool) -> str:
    text = str(Namespace.of(match.value)) if namespace and match.value else _name_text(match.value)
    if match.kind is MatchKind.PREFIX:
        return f"{text}*"
    return f"*{text}" if match.kind is MatchKind.SUFFIX else text


def _name_text(value: bytes) -> str:
    return str(FullTrackName(Namespace(), value)).removeprefix("--")


def _fault(text: str, index: int, reason: str) -> TextFormError:
    return TextFormError.at("scope", text, max(index, 0), reason, example=_EXAMPLE)
