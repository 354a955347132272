"""A policy as text: one line for each rule, for operators of a running relay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from laps_relay.policy.facts import NodeNote, Region
from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.rules import Fence, Filter, FilterRule, Rules, TrackRule
from laps_wire.names import Namespace

__all__ = ["NOTHING", "rules_as_text"]

NOTHING: Final = "everything is allowed"


def rules_as_text(rules: Rules) -> list[str]:
    """Return a line for each rule, in the order of the file; rules without effect are left out."""
    return list(_lines(rules)) or [NOTHING]


def _lines(rules: Rules) -> Iterator[str]:
    for region in rules.regions:
        yield f"region {region.name}: {_region(region)}"
    for note in rules.notes:
        yield f"nodes {_list(note.nodes)}: {_note(note)}"
    for link in rules.links:
        ends = " and ".join(map(str, link.between))
        yield f"link {link.name}: between {ends} IP packets pass {_list(link.countries)}"
    for name, fence in (("peers", rules.peers), ("transit", rules.transit)):
        if not fence.is_open:
            yield f"{name}: {_fence(fence)}"
    for service in rules.classes.values():
        words = [*_limits(service.limits)]
        if not service.transit.is_open:
            words.append(f"transit: {_fence(service.transit)}")
        yield f"class {service.name}: {'; '.join(words) or 'no limits'}"
    for track in rules.tracks:
        yield _track(track)
    for name, wanted in rules.filters():
        yield from _filter(name, wanted)


def _region(region: Region) -> str:
    words = []
    if region.nodes:
        words.append(f"nodes {_list(region.nodes)}")
    if region.names:
        words.append(f"who says {_list(sorted(region.names))}")
    if region.countries:
        words.append(f"in {_list(sorted(region.countries))}")
    words += _labels(region.labels)
    return " or ".join(words)


def _note(note: NodeNote) -> str:
    words = [f"in {note.country}"] if note.country else []
    return ", ".join([*words, *_labels(note.labels)]) or "nothing"


def _fence(fence: Fence) -> str:
    named = (
        ("only nodes", map(str, fence.allow_nodes)),
        ("no nodes", map(str, fence.deny_nodes)),
        ("only regions", sorted(fence.allow_regions)),
        ("no regions", sorted(fence.deny_regions)),
        ("only countries", sorted(fence.allow_countries)),
        ("no countries", sorted(fence.deny_countries)),
    )
    words = [f"{label} {text}" for label, values in named if (text := _list(values))]
    return "; ".join([*words, *(f"only {label}" for label in _labels(fence.need))])


def _limits(limits: ClassLimits) -> Iterator[str]:
    if limits.max_rtt_us is not None:
        yield f"round trip at most {limits.max_rtt_us / 1000:g} ms"
    if limits.max_loss is not None:
        yield f"loss at most {limits.max_loss * 100:g} %"
    if limits.max_fanout is not None:
        yield f"at most {limits.max_fanout} copies towards a region"


def _track(rule: TrackRule) -> str:
    what = f"tracks {_namespace(rule.namespace)}"
    if rule.track is not None:
        what = f"{what} with the name {_text(rule.track)}"
    words = [f"class {rule.service_class}"] if rule.service_class else []
    if not rule.subscribers.is_open:
        words.append(f"subscribers: {_fence(rule.subscribers)}")
    shown = "" if rule.name == "/".join(map(_text, rule.namespace.fields)) else f" ({rule.name})"
    return f"{what}{shown}: {'; '.join(words) or 'no class of its own'}"


def _filter(name: str, wanted: Filter) -> Iterator[str]:
    for rule in wanted.rules:
        yield f"{name}, {rule.name}: {_rule(rule)}"
    if not wanted.accept:
        yield f"{name}: deny everything else"


def _rule(rule: FilterRule) -> str:
    named = (
        ("peers", map(str, rule.peers)),
        ("peers in", sorted(rule.peer_regions)),
        ("from", map(str, rule.sources)),
        ("from", sorted(rule.source_regions)),
    )
    words = [f"{label} {text}" for label, values in named if (text := _list(values))]
    if rule.namespace is not None:
        words.append(_namespace(rule.namespace))
    words += _labels(rule.labels)
    says = "accept" if rule.accept else "deny"
    because = f" ({rule.reason})" if rule.reason else ""
    return f"{says} {', '.join(words) or 'everything'}{because}"


def _namespace(namespace: Namespace) -> str:
    return f"below {'/'.join(map(_text, namespace.fields))}" if namespace.fields else "everywhere"


def _labels(labels: Iterable[tuple[str, str]]) -> list[str]:
    return [f"with {name} = {value}" for name, value in labels]


def _list(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _text(value: bytes) -> str:
    return value.decode("ascii", "backslashreplace")
