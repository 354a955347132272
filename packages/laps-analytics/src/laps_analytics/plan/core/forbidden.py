"""What forbids a Via for some targets: the rules of a class, one by one, for the verifier.

This shares nothing with the code that makes plans.
"""

from __future__ import annotations

from collections.abc import Sequence

from laps_analytics.plan.core.network import Network
from laps_wire.plan import ClassRule

__all__ = ["faults", "passes"]

_RELAY_MS = 1.0
_TOLERANCE = 1e-6


def faults(
    network: Network,
    kinds: Sequence[str],
    via: str,
    origin: int,
    targets: Sequence[int],
    rule: ClassRule,
    strict: bool = False,
) -> list[tuple[str, str]]:
    """Constraints that a way from the origin over a Via breaks, and how.

    With ``strict`` a path that nobody declared passes what is denied.
    """
    if via not in network.index:
        return [("node", f"{via} is not there")]
    row = network.index[via]
    node = network.nodes[row]
    found = []
    if not node.usable or node.kind not in kinds or row == origin or row in targets:
        found.append(("node", f"{via} cannot be a Via here"))
    if rule.via_regions is not None and node.region not in rule.via_regions:
        found.append(("region", f"{via} stands in {node.region or 'no region'}"))
    if not _may_pass(frozenset({node.country}), rule):
        found.append(("country", f"{via} stands in {node.country or 'no country'}"))
    for target in targets:
        way = f"{network.nodes[target].id} over {via}"
        for a, b in ((origin, row), (row, target)):
            if names := passes(network, a, b, rule, strict):
                link = f"{network.nodes[a].id} to {network.nodes[b].id}"
                found.append(("country", f"{link} passes {names}"))
        direct = float(network.rtt_ms[origin, target])
        over = float(network.rtt_ms[origin, row] + network.rtt_ms[row, target]) + _RELAY_MS
        most = direct * (rule.slack_permille / 1000) + rule.extra_us / 1000
        if not over <= most + _TOLERANCE or over == float("inf"):
            found.append(("latency", f"{over:.1f} ms to {way}, at most {most:.1f}"))
        if rule.limit_loss_ppm is not None:
            first, second = float(network.loss[origin, row]), float(network.loss[row, target])
            lost = first + second - first * second
            bound = max(rule.limit_loss_ppm / 1e6, float(network.loss[origin, target]))
            if lost > bound + _TOLERANCE:
                found.append(("loss", f"{lost:.2%} to {way}, at most {bound:.2%}"))
    return found


def passes(network: Network, a: int, b: int, rule: ClassRule, strict: bool = False) -> str:
    """The countries that the path of a link passes, if one of them is not allowed."""
    if strict and (a, b) not in network.countries and (b, a) not in network.countries:
        return "what nobody declared"
    ends = {network.nodes[a].country, network.nodes[b].country}
    passed = network.path_countries(a, b) - ends
    return "" if not passed or _may_pass(passed, rule) else ", ".join(sorted(passed))


def _may_pass(countries: frozenset[str], rule: ClassRule) -> bool:
    if any(country in rule.deny_countries for country in countries):
        return False
    allowed = rule.allow_countries
    return allowed is None or all(country in allowed for country in countries)
