"""A policy file: its models, how they become rules, and the report of all mistakes with lines.

Every table of the TOML file is optional, and an empty file allows everything. The models check each
value. :meth:`PolicyModel.strays` checks references between parts of the file, such as names of
regions and classes.

References can be checked only in a model, and a model needs valid values. If a file has wrong
values, they are removed from a copy, and the references of the rest are checked.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_args
from urllib.parse import unquote_to_bytes

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictFloat,
    StrictInt,
    StringConstraints,
    ValidationError,
)
from pydantic_core import ErrorDetails

from laps_relay.config.fields import Duration, Section, key
from laps_relay.config.load import ConfigError, Problem
from laps_relay.policy.facts import NodeNote, NodePattern, Region
from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, ServiceClass, TrackRule
from laps_wire.names import Namespace

__all__ = [
    "Fault",
    "Place",
    "PolicyModel",
    "compiled",
    "load_policy",
    "namespace_of",
    "policy_lines",
    "strays_beside_faults",
]

Place: TypeAlias = "tuple[str | int, ...]"
"""The place of a value: keys, and indexes of items from zero."""
Fault: TypeAlias = "tuple[Place, str, str]"
"""Place, mistake, and correction."""
_MAX_FILE: Final = 1024 * 1024
_PART: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_NAME: Final = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_NAME})\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(rf"\s*({_NAME})\s*=")
_ROUNDS: Final = 8
"""Most rounds: removing a value may make the table that held it invalid, and so on."""
_GONE: Final = object()
_NAMED: Final = ("regions", "classes")
"""Tables whose names others refer to; such a name exists even if its value is wrong."""


def namespace_of(text: str) -> Namespace:
    """Return a namespace from text: slashes separate fields, ``%`` escapes a byte."""
    return Namespace(tuple(unquote_to_bytes(part) for part in text.split("/")) if text else ())


def _pattern(value: Any) -> NodePattern:
    if not isinstance(value, str):
        raise ValueError('a node pattern is a text such as "100.*:*"')  # noqa: TRY004
    return NodePattern.parse(value)


def _namespace(value: Any) -> Namespace:
    if not isinstance(value, str):
        raise ValueError('a namespace is a text such as "acme/news"')  # noqa: TRY004
    return namespace_of(value)


def _country(value: str) -> str:
    if not (len(value) == 2 and value.isascii() and value.isalpha()):
        raise ValueError("a country is two letters (ISO 3166-1) such as 'US'")
    return value.upper()


Pattern = Annotated[NodePattern, PlainValidator(_pattern)]
NamespaceText = Annotated[Namespace, PlainValidator(_namespace)]
Country = Annotated[str, AfterValidator(_country)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Labels = Annotated[dict[str, str], Field(max_length=32)]


def _pairs(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(labels.items())


class FenceModel(BaseModel):
    """Conditions on nodes; every list that is given must match."""

    model_config: ClassVar[ConfigDict] = Section.model_config

    allow_nodes: list[Pattern] = key([], "Only these nodes.")
    deny_nodes: list[Pattern] = key([], "Not these nodes.")
    allow_regions: list[Word] = key([], "Only nodes in one of these regions.")
    deny_regions: list[Word] = key([], "No nodes in one of these regions.")
    allow_countries: list[Country] = key([], "Only nodes, and links, in these countries.")
    deny_countries: list[Country] = key([], "No nodes, and no links, in these countries.")
    need: Labels = key({}, "Labels that a node must have.")

    def fence(self) -> Fence:
        """Return the compiled rule."""
        return Fence(
            allow_nodes=tuple(self.allow_nodes),
            deny_nodes=tuple(self.deny_nodes),
            allow_regions=frozenset(self.allow_regions),
            deny_regions=frozenset(self.deny_regions),
            allow_countries=frozenset(self.allow_countries),
            deny_countries=frozenset(self.deny_countries),
            need=_pairs(self.need),
        )


class RegionModel(Section):
    """``[regions.NAME]``: a group of nodes; a node that meets any condition belongs to it."""

    nodes: list[Pattern] = key([], "Node IDs.")
    names: list[Word] = key([], "What nodes call their region. Without any key: its own name.")
    countries: list[Country] = key([], "Where nodes stand.")
    labels: Labels = key({}, "Labels of nodes.")

    def region(self, name: str) -> Region:
        """Return the compiled rule."""
        given = self.nodes or self.names or self.countries or self.labels
        return Region(
            name=name,
            nodes=tuple(self.nodes),
            names=frozenset(self.names if given else [name]),
            countries=frozenset(self.countries),
            labels=_pairs(self.labels),
        )


class NodeModel(Section):
    """``[[node]]``: facts about nodes that replace what the nodes advertise."""

    nodes: list[Pattern] = Field(min_length=1, description="Node IDs.")
    country: Country | None = key(None, "Where they stand.")
    labels: Labels = key({}, "Labels that they get.")

    def note(self) -> NodeNote:
        """Return the compiled rule."""
        return NodeNote(
            nodes=tuple(self.nodes), country=self.country or "", labels=_pairs(self.labels)
        )


class LinkModel(Section):
    """``[[link]]``: the countries that IP packets cross between two relays."""

    between: Annotated[list[Pattern], Field(min_length=2, max_length=2)] = Field(
        description="The two ends, in any order."
    )
    countries: list[Country] = Field(min_length=1, description="All that are passed.")
    name: Word | None = key(None, "For explanations.")

    def link(self, number: int) -> Link:
        """Return the compiled rule."""
        return Link(
            name=self.name or f"link {number}",
            between=(self.between[0], self.between[1]),
            countries=tuple(self.countries),
        )


class ClassModel(Section):
    """``[classes.NAME]``: a class of service."""

    max_rtt: Duration | None = key(None, "Round trip of a way; above it another way is looked for.")
    max_loss: StrictFloat | None = key(
        None, "Share of packets lost on a link, as above.", ge=0, le=1
    )
    max_fanout: StrictInt | None = key(None, "Copies towards one region, as above.", ge=1)
    transit: FenceModel = key(FenceModel(), "Relays and links that its data may pass.")

    def service(self, name: str) -> ServiceClass:
        """Return the compiled rule."""
        rtt = None if self.max_rtt is None else round(self.max_rtt * 1_000_000)
        return ServiceClass(
            name=name,
            limits=ClassLimits(rtt, self.max_loss, self.max_fanout),
            transit=self.transit.fence(),
        )


class TrackModel(FenceModel):
    """``[[track]]``: tracks at and below a namespace, and which subscribers may have them."""

    namespace: NamespaceText = Field(description='Fields parted by slashes; "" is everything.')
    track: str | None = key(None, "Only the track with this name.")
    service_class: Word | None = Field(
        None, alias="class", description="Their class of service, one of [classes]."
    )
    name: Word | None = key(None, "For reasons and explanations.")

    def rule(self) -> TrackRule:
        """Return the compiled rule."""
        return TrackRule(
            name=self.name or "/".join(map(_shown, self.namespace.fields)) or "everything",
            namespace=self.namespace,
            track=None if self.track is None else unquote_to_bytes(self.track),
            service_class=self.service_class or "",
            subscribers=self.fence(),
        )


def _shown(field: bytes) -> str:
    return field.decode("ascii", "backslashreplace")


class NodeRuleModel(BaseModel):
    """A rule of a filter for node information."""

    model_config: ClassVar[ConfigDict] = Section.model_config

    action: Literal["accept", "deny"] = Field(description="What happens if it matches.")
    name: Word | None = key(None, "For reasons and explanations.")
    reason: Annotated[str, StringConstraints(max_length=256)] = key("", "For who is refused.")
    peers: list[Pattern] = key([], "Peers that it comes from, or goes to.")
    peer_regions: list[Word] = key([], "Their regions.")
    sources: list[Pattern] = key([], "Nodes that it is about, or that said it first.")
    source_regions: list[Word] = key([], "Their regions.")
    labels: Labels = key({}, "Labels of the node, or of the subscribe's scope: all of these.")

    def rule(self, number: int) -> FilterRule:
        """Return the compiled rule."""
        return FilterRule(
            name=self.name or f"rule {number}",
            accept=self.action == "accept",
            reason=self.reason,
            peers=tuple(self.peers),
            peer_regions=frozenset(self.peer_regions),
            sources=tuple(self.sources),
            source_regions=frozenset(self.source_regions),
            namespace=getattr(self, "namespace", None),
            labels=_pairs(self.labels),
        )


class SubscribeRuleModel(NodeRuleModel):
    """A rule of a filter for subscribes."""

    namespace: NamespaceText | None = key(None, "This namespace, and all below it.")


class AnnounceRuleModel(NodeRuleModel):
    """A rule of a filter for announces, which have no labels."""

    namespace: NamespaceText | None = key(None, "This namespace, and all below it.")
    labels: Annotated[dict[str, str], Field(max_length=0)] = key({}, "Announces have none.")


class _FilterModel(BaseModel):
    model_config: ClassVar[ConfigDict] = Section.model_config

    default: Literal["accept", "deny"] = key("accept", "What happens if no rule matches.")


class NodeFilterModel(_FilterModel):
    """``[import.node]`` and ``[export.node]``."""

    rule: list[NodeRuleModel] = key([], "Rules in order; the first that matches decides.")


class AnnounceFilterModel(_FilterModel):
    """``[import.announce]`` and ``[export.announce]``."""

    rule: list[AnnounceRuleModel] = key([], "Rules in order; the first that matches decides.")


class SubscribeFilterModel(_FilterModel):
    """``[import.subscribe]`` and ``[export.subscribe]``."""

    rule: list[SubscribeRuleModel] = key([], "Rules in order; the first that matches decides.")


AnyFilter: TypeAlias = "NodeFilterModel | AnnounceFilterModel | SubscribeFilterModel"


def _filter(model: AnyFilter) -> Filter:
    return Filter(
        rules=tuple(rule.rule(number) for number, rule in enumerate(model.rule, 1)),
        accept=model.default == "accept",
    )


class DirectionModel(Section):
    """``[import]`` or ``[export]``."""

    node: NodeFilterModel = key(NodeFilterModel(), "Node information.")
    announce: AnnounceFilterModel = key(AnnounceFilterModel(), "Announces.")
    subscribe: SubscribeFilterModel = key(SubscribeFilterModel(), "Subscribes.")


class PolicyModel(Section):
    """The whole file."""

    regions: dict[Word, RegionModel] = key({}, "Regions by name; a node counts for the first.")
    node: list[NodeModel] = key([], "What the operator knows of nodes; the first one counts.")
    link: list[LinkModel] = key([], "Declared IP paths.")
    peers: FenceModel = key(FenceModel(), "Who may peer with this relay.")
    transit: FenceModel = key(FenceModel(), "Relays and links that data may pass.")
    classes: dict[Word, ClassModel] = key({}, "Classes of service by name.")
    track: list[TrackModel] = key([], "Tracks by namespace.")
    import_: DirectionModel = Field(
        DirectionModel(), alias="import", description="What may come in."
    )
    export: DirectionModel = key(DirectionModel(), "What may go out.")

    def strays(self) -> Iterator[Fault]:
        """Return references to names that the file does not define."""
        yield from self._fence_strays(("peers",), self.peers)
        yield from self._fence_strays(("transit",), self.transit)
        for name, service in self.classes.items():
            yield from self._fence_strays(("classes", name, "transit"), service.transit)
        for number, track in enumerate(self.track):
            yield from self._fence_strays(("track", number), track)
            wanted = track.service_class
            if wanted is not None and wanted not in self.classes:
                yield (
                    ("track", number, "class"),
                    f"there is no class {wanted!a}",
                    _known("classes", self.classes),
                )
        for direction, filters in (("import", self.import_), ("export", self.export)):
            for kind in ("node", "announce", "subscribe"):
                for number, rule in enumerate(getattr(filters, kind).rule):
                    at: Place = (direction, kind, "rule", number)
                    yield from self._region_strays((*at, "peer_regions"), rule.peer_regions)
                    yield from self._region_strays((*at, "source_regions"), rule.source_regions)

    def _fence_strays(self, at: Place, fence: FenceModel) -> Iterator[Fault]:
        yield from self._region_strays((*at, "allow_regions"), fence.allow_regions)
        yield from self._region_strays((*at, "deny_regions"), fence.deny_regions)

    def _region_strays(self, at: Place, names: list[str]) -> Iterator[Fault]:
        for name in names:
            if name not in self.regions:
                yield at, f"there is no region {name!a}", _known("regions", self.regions)


def _known(table: str, names: Mapping[str, object]) -> str:
    known = ", ".join(sorted(names)) or "none"
    return f"write [{table}.NAME], or one that is there: {known}"


def compiled(model: PolicyModel) -> Rules:
    """Return the compiled policy."""
    return Rules(
        regions=tuple(region.region(name) for name, region in model.regions.items()),
        notes=tuple(node.note() for node in model.node),
        links=tuple(link.link(number) for number, link in enumerate(model.link, 1)),
        peers=model.peers.fence(),
        transit=model.transit.fence(),
        classes={name: service.service(name) for name, service in model.classes.items()},
        tracks=tuple(track.rule() for track in model.track),
        import_node=_filter(model.import_.node),
        import_announce=_filter(model.import_.announce),
        import_subscribe=_filter(model.import_.subscribe),
        export_node=_filter(model.export.node),
        export_announce=_filter(model.export.announce),
        export_subscribe=_filter(model.export.subscribe),
    )


def load_policy(path: Path) -> Rules:
    """Return the policy of a file. Raises :class:`ConfigError` with all mistakes."""
    text = _read(path)
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(_syntax(path, str(error))) from None
    lines = policy_lines(text)
    try:
        model = PolicyModel.model_validate(data)
    except ValidationError as error:
        found = [_fault(item) for item in error.errors(include_url=False)]
        found += strays_beside_faults(data, [at for at, _, _ in found])
    else:
        found = list(model.strays())
        if not found:
            return compiled(model)
    raise ConfigError(*_in_order(path, lines, found))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE + 1)
        if len(raw) > _MAX_FILE:
            raise ConfigError(
                Problem(
                    where=str(path),
                    key="",
                    wrong=f"is larger than {_MAX_FILE} bytes",
                    right="use patterns and regions in place of long lists",
                )
            )
        return raw.decode()
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        wrong = "is not UTF-8"
    raise ConfigError(
        Problem(where=str(path), key="", wrong=wrong, right="give the path of a TOML file")
    ) from None


def _syntax(path: Path, words: str) -> Problem:
    at = re.search(r" \(at line (\d+), column (\d+)\)$", words)
    where = f"{path}:{at[1]}" if at else str(path)
    wrong = f"not TOML: {words[: at.start()] if at else words}"
    return Problem(where=where, key="", wrong=wrong, right='a line is: name = "value"')


def policy_lines(text: str) -> dict[Place, int]:
    """Return the line of each key and table; keys inside long strings may be misplaced."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    prefix: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            prefix = ()
            parts = _parts(header[2])
            for index, part in enumerate(parts):
                prefix = (*prefix, part)
                if index == len(parts) - 1 and header[1] == "[[":
                    counts[prefix] = counts.get(prefix, 0) + 1
                if prefix in counts:
                    # Below an array of tables the last of them is meant.
                    prefix = (*prefix, counts[prefix] - 1)
            found.setdefault(prefix, number)
        elif assigned := _KEY.match(line):
            found.setdefault((*prefix, *_parts(assigned[1])), number)
    return found


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, name)]


def _in_order(path: Path, lines: Mapping[Place, int], found: Iterable[Fault]) -> list[Problem]:
    """Return mistakes in the order of the file."""
    rows: list[tuple[int, Problem]] = []
    for at, wrong, right in found:
        near = at
        while near and near not in lines:
            near = near[:-1]
        line = lines.get(near, 0)
        # Items of an array of tables are counted from one, as people do.
        name = ".".join(str(part + 1) if isinstance(part, int) else part for part in at)
        where = f"{path}:{line}" if line else str(path)
        rows.append((line, Problem(where=where, key=name, wrong=wrong, right=right)))
    return [problem for _, problem in sorted(rows, key=lambda row: row[0])]


def _fault(error: ErrorDetails) -> Fault:
    at: Place = tuple(part for part in error["loc"] if part != "[key]")
    shown = f"{str(error['input'])[:60]!a}: "
    match error["type"]:
        case "extra_forbidden":
            known = _keys_at(at[:-1])
            near = difflib.get_close_matches(str(at[-1]), known, 1, 0.6)
            return at, "unknown key", f"did you mean {near[0]}?" if near else _list(known)
        case "missing":
            wrong = "is missing"
        case "model_type":
            return at, f"{shown}not a table", _list(_keys_at(at))
        case _:
            words = error["msg"].removeprefix("Value error, ")
            wrong = f"{shown}{words[:1].lower()}{words[1:]}"
    return at, wrong, _right(at)


def _list(known: Iterable[str]) -> str:
    return f"its keys are {', '.join(sorted(known))}"


def _model_at(at: Place) -> Any:
    """Return the type that belongs at a place, with lists and tables opened."""
    kind: Any = PolicyModel
    for part in at:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = _fields(kind).get(str(part))
            kind = None if field is None else field.annotation
        else:
            # The last argument is the value of a table, or the item of a list.
            kind = (get_args(kind) or (None,))[-1]
    return kind


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _keys_at(at: Place) -> list[str]:
    kind = _model_at(at)
    return list(_fields(kind)) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _right(at: Place) -> str:
    """Return what a key means; for an item of a list, what the list means."""
    while at:
        kind = _model_at(at[:-1])
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = _fields(kind).get(str(at[-1]))
            return "" if field is None else str(field.description or "")
        at = at[:-1]
    return ""


def strays_beside_faults(data: dict[str, Any], places: Iterable[Place]) -> list[Fault]:
    """Return references to undefined names in a file whose mistakes are at ``places``."""
    data = deepcopy(data)
    todo = list(places)
    for _ in range(_ROUNDS):
        for at in todo:
            _leave_out(data, at)
        kept: dict[Place, list[int]] = {}
        try:
            model = PolicyModel.model_validate(_rest(data, (), kept))
        except ValidationError as error:
            found = [item["loc"] for item in error.errors(include_url=False)]
            todo = [_original(at, kept) for at in found]
            continue
        return [(_original(at, kept), wrong, right) for at, wrong, right in model.strays()]
    return []


def _leave_out(data: Any, at: Place) -> None:
    """Remove a value, or the table that lacks it."""
    holder = data
    for depth, part in enumerate(at):
        there = part in holder if isinstance(holder, dict) else isinstance(holder, list)
        if not there or depth == len(at) - 1:
            break
        holder = holder[part]
    else:
        return
    if not there:
        _leave_out(data, at[:depth])
    elif isinstance(holder, list):
        holder[int(part)] = _GONE
    elif len(at) == 2 and at[0] in _NAMED:
        holder[part] = {}
    else:
        del holder[part]


def _rest(value: Any, at: Place, kept: dict[Place, list[int]]) -> Any:
    """Return a copy without removed items, and note which items of each list are left."""
    if isinstance(value, dict):
        return {name: _rest(each, (*at, name), kept) for name, each in value.items()}
    if isinstance(value, list):
        kept[at] = [index for index, each in enumerate(value) if each is not _GONE]
        return [_rest(value[index], (*at, new), kept) for new, index in enumerate(kept[at])]
    return value


def _original(at: Place, kept: dict[Place, list[int]]) -> Place:
    """Return the place in the file of a place in the copy."""
    numbers = [
        kept[at[:depth]][part] if isinstance(part, int) and at[:depth] in kept else part
        for depth, part in enumerate(at)
        if part != "[key]"
    ]
    return tuple(numbers)
