"""Constraints of plans: a TOML file. Unknown keys are errors.

::

    max_fanout = 2                  # copies of a track towards one region
    change_budget = 20              # cells that may differ from the plan in force
    headroom = 0.8                  # share of a capacity that is planned for
    lifetime_s = 900                # how long a plan is followed
    edges_as_vias = false

    [weights]                       # what delay is worth, beside the price of an hour
    delay_price = 2e-5              # a viewer, a millisecond
    poor_price = 0.02               # a viewer over the limit of the class

    [price]                         # of a gigabyte; only ratios count
    within = 0.2                    # between relays of one region
    between = 1.0
    from = { africa = 4.0 }         # times this, for what leaves a region

    [class.gold]
    slack = 1.2                     # way over a Via <= slack x direct + extra_ms
    extra_ms = 25
    limit_ms = 150                  # longer is too long for the class
    limit_loss = 0.005              # a Via's way loses at most this share, or no more than direct
    deny_countries = ["XX"]
    allow_countries = ["DE", "FR"]
    undeclared = "deny"             # a link without `countries` counts as passing a denied one
    via_regions = ["eu-west"]
    disjoint = true                 # only with a second Via

    [node."0.1:0.3"]
    country = "DE"
    capacity_bps = 1e10
    usable = false                  # nothing is put on it

    [link."0.1:0.3>0.2:0.1"]        # counts for both directions
    countries = ["DE", "FR"]        # that the IP path passes
    capacity_bps = 2e9
    price = 3.0
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from laps_analytics.errors import InputError
from laps_analytics.plan.core.placement import Policy, Weights
from laps_wire.errors import TextFormError
from laps_wire.nodeid import NodeId
from laps_wire.plan import ClassRule, HardConstraints

__all__ = ["LinkFacts", "NodeFacts", "Settings", "parse_settings", "read_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Operator's data about a relay."""

    country: str = ""
    capacity_bps: float | None = None
    usable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """Operator's data about a link."""

    countries: frozenset[str] | None = None
    capacity_bps: float | None = None
    price: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Input of a plan that telemetry does not have."""

    policy: Policy = field(default_factory=Policy)
    lifetime_us: int = 900_000_000
    within: float = 0.2
    between: float = 1.0
    leaving: Mapping[str, float] = field(default_factory=dict)
    """Region to the price factor of traffic that leaves it."""
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    links: Mapping[tuple[str, str], LinkFacts] = field(default_factory=dict)


def read_settings(path: Path) -> Settings:
    """Read the settings of a file; raise :class:`InputError` with the place of a fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; name another file"
        ) from None
    return parse_settings(text, str(path))


def parse_settings(text: str, where: str) -> Settings:
    """Parse settings; raise :class:`InputError` with the place of a fault."""
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not TOML: {error}") from None
    return _Reader(where).settings(plain)


_COUNTRY: Final = re.compile(r"[A-Z]{2}")


class _Reader:
    def __init__(self, where: str) -> None:
        self._where = where

    def fault(self, place: str, words: str) -> InputError:
        return InputError(f"{self._where}: {place}: {words}")

    def settings(self, plain: Mapping[str, Any]) -> Settings:
        known = {
            *("max_fanout", "change_budget", "headroom", "lifetime_s", "edges_as_vias"),
            *("weights", "price", "class", "node", "link"),
        }
        self.only(plain, known, "")
        weights = self.table(plain, "weights", {"delay_price", "poor_price"})
        price = self.table(plain, "price", {"within", "between", "from"})
        leaving = self.table(price, "from", None, "price.from")
        budget = plain.get("change_budget")
        base = Weights()
        classes = {
            name: self.rule(row, f"class.{name}")
            for name, row in self.table(plain, "class", None).items()
        }
        return Settings(
            policy=Policy(
                hard=HardConstraints(
                    max_fanout=self.whole(plain, "max_fanout", 2, 1, 65_535),
                    change_budget=None
                    if budget is None
                    else self.whole(plain, "change_budget", 0, 0, 1 << 40),
                    headroom_permille=round(
                        1000 * self.number(plain, "headroom", 0.8, "", 0.001, 1.0)
                    ),
                    classes=classes,
                ),
                weights=Weights(
                    delay_price=self.number(weights, "delay_price", base.delay_price, "weights"),
                    poor_price=self.number(weights, "poor_price", base.poor_price, "weights"),
                ),
                edges_as_vias=self.truth(plain, "edges_as_vias", False, ""),
                undeclared=frozenset(
                    name
                    for name, row in self.table(plain, "class", None).items()
                    if self.strict(row, f"class.{name}")
                ),
            ),
            lifetime_us=self.whole(plain, "lifetime_s", 900, 1, 86_400) * 1_000_000,
            within=self.number(price, "within", 0.2, "price"),
            between=self.number(price, "between", 1.0, "price"),
            leaving={name: self.number(leaving, name, 1.0, "price.from") for name in leaving},
            nodes={
                self.node(name, f"node.{name}"): self.node_facts(row, f"node.{name}")
                for name, row in self.table(plain, "node", None).items()
            },
            links={
                self.link(name): self.link_facts(row, f"link.{name}")
                for name, row in self.table(plain, "link", None).items()
            },
        )

    def rule(self, row: object, place: str) -> ClassRule:
        known = {
            *("slack", "extra_ms", "limit_ms", "limit_loss", "disjoint"),
            *("deny_countries", "allow_countries", "via_regions", "undeclared"),
        }
        plain = self.as_table(row, place)
        self.only(plain, known, place)
        limit = None
        if "limit_ms" in plain:
            limit = round(1000 * self.number(plain, "limit_ms", 0, place, 0.001, 1e9))
        lossy = None
        if "limit_loss" in plain:
            lossy = round(1e6 * self.number(plain, "limit_loss", 0, place, 0, 1))
        return ClassRule(
            limit_loss_ppm=lossy,
            slack_permille=round(1000 * self.number(plain, "slack", 1.3, place, 0.001, 1000)),
            extra_us=round(1000 * self.number(plain, "extra_ms", 30, place, 0, 1e9)),
            limit_us=limit,
            deny_countries=self.countries(plain, "deny_countries", place) or (),
            allow_countries=self.countries(plain, "allow_countries", place),
            via_regions=self.words(plain, "via_regions", place),
            disjoint=self.truth(plain, "disjoint", False, place),
        )

    def strict(self, plain: Mapping[str, Any], place: str) -> bool:
        """Return whether a class must not use links without declared countries."""
        value = plain.get("undeclared", "allow")
        if value not in ("allow", "deny"):
            raise self.fault(f"{place}.undeclared", f"{value!r} is not allow or deny")
        if value == "deny" and not {"deny_countries", "allow_countries"} & plain.keys():
            words = "needs deny_countries or allow_countries"
            raise self.fault(f"{place}.undeclared", words)
        return bool(value == "deny")

    def node_facts(self, row: object, place: str) -> NodeFacts:
        plain = self.as_table(row, place)
        self.only(plain, {"country", "capacity_bps", "usable"}, place)
        country = plain.get("country", "")
        if country != "" and (not isinstance(country, str) or not _COUNTRY.fullmatch(country)):
            raise self.fault(f"{place}.country", f"{country!r} is not a country code such as DE")
        return NodeFacts(
            country=country,
            capacity_bps=self.maybe(plain, "capacity_bps", place),
            usable=self.truth(plain, "usable", True, place),
        )

    def link_facts(self, row: object, place: str) -> LinkFacts:
        plain = self.as_table(row, place)
        self.only(plain, {"countries", "capacity_bps", "price"}, place)
        countries = self.countries(plain, "countries", place)
        return LinkFacts(
            countries=None if countries is None else frozenset(countries),
            capacity_bps=self.maybe(plain, "capacity_bps", place),
            price=self.maybe(plain, "price", place),
        )

    # Values

    def only(self, plain: Mapping[str, Any], known: set[str], place: str) -> None:
        if unknown := sorted(set(plain) - known):
            words = f"is unknown; known: {', '.join(sorted(known))}"
            raise self.fault(f"{place}.{unknown[0]}" if place else unknown[0], words)

    def as_table(self, row: object, place: str) -> Mapping[str, Any]:
        if not isinstance(row, dict):
            raise self.fault(place, f"{row!r} is not a table")
        return row

    def table(
        self, plain: Mapping[str, Any], name: str, known: set[str] | None, place: str = ""
    ) -> Mapping[str, Any]:
        found = self.as_table(plain.get(name, {}), place or name)
        if known is not None:
            self.only(found, known, place or name)
        return found

    def number(
        self,
        plain: Mapping[str, Any],
        name: str,
        default: float,
        place: str,
        least: float = 0.0,
        most: float = 1e15,
    ) -> float:
        value = plain.get(name, default)
        at = f"{place}.{name}" if place else name
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.fault(at, f"{value!r} is not a number")
        if not least <= value <= most:
            raise self.fault(at, f"{value!r} is outside {least:g} to {most:g}")
        return float(value)

    def maybe(self, plain: Mapping[str, Any], name: str, place: str) -> float | None:
        return self.number(plain, name, 0.0, place) if name in plain else None

    def whole(
        self, plain: Mapping[str, Any], name: str, default: int, least: int, most: int
    ) -> int:
        value = plain.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(name, f"{value!r} is not a whole number from {least} to {most}")
        return value

    def truth(self, plain: Mapping[str, Any], name: str, default: bool, place: str) -> bool:
        value = plain.get(name, default)
        if not isinstance(value, bool):
            raise self.fault(
                f"{place}.{name}" if place else name, f"{value!r} is not true or false"
            )
        return value

    def words(self, plain: Mapping[str, Any], name: str, place: str) -> tuple[str, ...] | None:
        value = plain.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fault(f"{place}.{name}", f"{value!r} is not a list of strings")
        return tuple(value)

    def countries(self, plain: Mapping[str, Any], name: str, place: str) -> tuple[str, ...] | None:
        found = self.words(plain, name, place)
        for item in found or ():
            if not _COUNTRY.fullmatch(item):
                raise self.fault(f"{place}.{name}", f"{item!r} is not a country code such as DE")
        return found

    def node(self, text: str, place: str) -> str:
        try:
            return str(NodeId.parse(text))
        except TextFormError as error:
            raise self.fault(place, str(error)) from None

    def link(self, text: str) -> tuple[str, str]:
        a, arrow, b = text.partition(">")
        if not arrow:
            raise self.fault(f"link.{text}", "write a link as a>b")
        return self.node(a, f"link.{text}"), self.node(b, f"link.{text}")
