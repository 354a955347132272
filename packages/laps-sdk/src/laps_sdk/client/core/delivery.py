"""Which objects a receiver of our track wants: its filter and its forward state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter

__all__ = ["Delivery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one subscription to our track has asked for, as far as it matters to the publisher."""

    forward: bool = True
    start: Location | None = None
    """Nothing before this; None: from the next object on."""
    end_group: int | None = None
    """Nothing behind this group."""

    @classmethod
    def of(cls, parameters: Parameters, largest: Location | None, next_group: int) -> Delivery:
        """What the parameters of SUBSCRIBE or PUBLISH_OK ask for (moq-transport-16, 5.1.2)."""
        return cls().changed(parameters, largest, next_group)

    def changed(
        self, parameters: Parameters, largest: Location | None, next_group: int
    ) -> Delivery:
        """The same with what an update says; what it does not say stays."""
        delivery = self
        if parameters.forward is not None:
            delivery = replace(delivery, forward=parameters.forward)
        if parameters.subscription_filter is not None:
            start, end_group = _range(parameters.subscription_filter, largest, next_group)
            delivery = replace(delivery, start=start, end_group=end_group)
        return delivery

    def wants(self, location: Location) -> bool:
        """Whether an object at this location is to be sent."""
        return (
            self.forward
            and (self.start is None or location >= self.start)
            and (self.end_group is None or location.group <= self.end_group)
        )


def _range(
    wanted: SubscriptionFilter, largest: Location | None, next_group: int
) -> tuple[Location | None, int | None]:
    match wanted.type:
        case FilterType.NEXT_GROUP_START:
            # Without an object there is no group to be in the middle of.
            return (None if largest is None else Location(next_group, 0)), None
        case FilterType.LARGEST_OBJECT:
            return None, None
        case _:
            return wanted.start, wanted.end_group
