"""What a subscription asks for, on its first link and on later ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from laps_sdk.client.core.window import WindowLimits
from laps_wire.moqt.codepoints import FilterType, GroupOrder
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft

__all__ = ["SubscriptionOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """What a subscription asks for."""

    filter: SubscriptionFilter
    join: int | None = None
    """Groups before the present one to fetch first."""
    priority: int | None = None
    order: GroupOrder | None = None
    delivery_timeout: float | None = None
    wait: float = 0.0
    """Seconds to wait for a publisher."""
    follow: bool = False
    """Whether to wait for the next publisher when one is gone."""
    gap_after: float = 3.0
    """Seconds until what did not come, and might, is told as a gap."""
    limits: WindowLimits = field(default_factory=WindowLimits)

    def parameters(self, draft: Draft) -> Parameters:
        """The parameters of SUBSCRIBE."""
        timeout = self.delivery_timeout
        waits = draft is Draft.D18 and self.wait > 0
        return Parameters(
            subscription_filter=self.filter,
            subscriber_priority=self.priority,
            group_order=self.order,
            object_delivery_timeout=None if timeout is None else max(1, int(timeout * 1000)),
            rendezvous_timeout=int(self.wait * 1000) if waits else None,
        )

    def on_link(self, draft: Draft, last: Location | None) -> Parameters:
        """The same where ``last`` was the last object that came on the link before."""
        wanted = self.parameters(draft)
        if last is not None:
            return replace(wanted, subscription_filter=_resumed(self.filter, last))
        if self.join is not None:
            # A joining fetch joins at the largest object (moq-transport-16, 9.16.2).
            latest = SubscriptionFilter(FilterType.LARGEST_OBJECT)
            return replace(wanted, subscription_filter=latest)
        return wanted


def _resumed(wanted: SubscriptionFilter, last: Location) -> SubscriptionFilter:
    """Where to go on: behind the last object; what was published since is fetched."""
    if wanted.end_group is None:
        return SubscriptionFilter(FilterType.LARGEST_OBJECT)
    start = Location(last.group, last.object + 1)
    end = max(wanted.end_group, last.group)
    return SubscriptionFilter(FilterType.ABSOLUTE_RANGE, start, end)
