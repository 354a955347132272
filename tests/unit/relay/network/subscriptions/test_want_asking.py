from __future__ import annotations

from laps_relay.network.subscriptions.discovery import Discovery
from laps_relay.network.subscriptions.want_asking import Asking
from laps_relay.network.subscriptions.want_records import PAUSE, Due, No, Want, WantTimers
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Label, SubscribeCode, SubscribeData, SubscribeInfo
from testkit.subscription_rig import (
    HASHER,
    IDENTITY,
    SETTINGS,
    US,
    Rig,
    announce_info,
    key_of,
    namespace,
    track,
)

NAME = track("a/b/n")
KEY = key_of(NAME)
NOBODY = No(SubscribeCode.NO_PUBLISHER, "nobody")


class Case:
    """One want, and who has announced its namespace."""

    def __init__(self, *announcers: int) -> None:
        self.rig = Rig()
        discovery = Discovery(US, HASHER)
        for node in announcers:
            self.rig.announces.heard(0.0, node, announce_info(node, namespace("a/b")))
        discovery.changed(0.0, self.rig.announces.take_changes())
        self.timers: WantTimers = Timers()
        self.asking = Asking(
            IDENTITY,
            SETTINGS,
            discovery,
            self.timers,
            subscribes=self.rig.subscribes,
            stamp=self.rig.stamp,
            replicas=self.rig.replicas,
        )
        elements = HASHER.elements(NAME.namespace.fields)
        self.want = Want(KEY, NAME, elements, HASHER.name(NAME.name))

    def asked(self) -> SubscribeInfo:
        entry = self.rig.asked(NAME)
        assert entry is not None
        assert entry is self.want.entry
        return entry

    def due(self, kind: Due) -> float | None:
        return self.timers.when((kind, KEY, None))


def test_a_subscribe_says_what_is_wanted_and_from_where() -> None:
    case = Case()
    case.want.data = SubscribeData(18, b"body")
    case.asking.anew(3.0, case.want)
    entry = case.asked()
    assert (entry.source, entry.full_name_hash, entry.data.body) == (US, KEY, b"body")
    assert entry.scope == (Label("region", "eu"),)
    assert case.want.asked == 3.0


def test_each_time_it_is_more_patient_and_forgets_what_was_answered() -> None:
    case = Case()
    case.asking.anew(0.0, case.want)
    stamps = [case.asked().stamp]
    times = [case.due(Due.RETRY)]
    for now in (10.0, 20.0):
        case.want.refusals[NodeId(1)] = NOBODY
        case.want.renewed.add(NodeId(2))
        case.asking.again(now, case.want)
        assert (case.want.refusals, case.want.renewed) == ({}, set())
        stamps.append(case.asked().stamp)
        times.append(case.due(Due.RETRY))
    grace = SETTINGS.origin_grace
    assert times == [grace, 10.0 + 2 * grace, 20.0 + 4 * grace]
    assert stamps == sorted(set(stamps))
    case.asking.anew(30.0, case.want)
    assert case.due(Due.RETRY) == 30.0 + grace


def test_who_comes_back_at_once_waits_for_the_pause() -> None:
    case = Case()
    case.asking.anew(10.0, case.want)
    first = case.asked()
    case.asking.soon(10.5, case.want)
    assert case.asked() is first
    assert case.due(Due.RETRY) == 10.0 + PAUSE
    assert case.want.patience == SETTINGS.origin_grace
    case.asking.soon(10.0 + PAUSE, case.want)
    assert case.asked().stamp > first.stamp


def test_something_else_is_said_once_in_a_batching_time() -> None:
    case = Case()
    case.asking.refresh(0.0, case.want)
    assert case.rig.asked(NAME) is None  # it is not asked for at all
    case.asking.anew(0.0, case.want)
    first = case.asked()
    case.asking.refresh(1.0, case.want)
    assert case.asked() is first  # it is what was asked for
    case.want.data = SubscribeData(18, b"other")
    case.asking.refresh(0.0, case.want)
    assert case.asked() is first
    assert case.due(Due.REFRESH) == SETTINGS.batch
    case.asking.refresh(SETTINGS.batch, case.want)
    assert case.asked().data.body == b"other"


def test_nothing_waits_for_what_is_withdrawn_but_the_last_unsubscribe() -> None:
    case = Case()
    case.asking.anew(0.0, case.want)
    for kind in Due:
        case.timers.set((kind, KEY, None), 9.0)
    case.asking.withdraw(1.0, case.want)
    assert (case.rig.asked(NAME), case.want.entry) == (None, None)
    left = {kind for kind in Due if case.due(kind) is not None}
    assert left == {Due.UNSUBSCRIBE, Due.LOST, Due.CUT}


def test_who_could_serve_it() -> None:
    case = Case(1, 2)
    asking, want = case.asking, case.want
    assert not asking.hopeless(want)
    assert [asking.asks(want, NodeId(node)) for node in (1, 2, 3)] == [True, True, False]
    case.rig.servers = (NodeId(3),)
    assert asking.asks(want, NodeId(3))
    nobody = Case()
    assert nobody.asking.hopeless(nobody.want)
    nobody.rig.servers = (NodeId(3),)
    assert not nobody.asking.hopeless(nobody.want)


def test_who_has_not_answered_yet() -> None:
    case = Case(1, 2)
    asking, want = case.asking, case.want
    assert asking.outstanding(want)
    want.refusals[NodeId(1)] = No(SubscribeCode.POLICY, "no")
    assert asking.outstanding(want)
    want.refusals[NodeId(2)] = NOBODY
    assert not asking.outstanding(want)


def test_a_control_server_that_says_no_speaks_for_all_that_it_knows() -> None:
    case = Case(1)
    case.rig.servers = (NodeId(2), NodeId(3))
    asking, want = case.asking, case.want
    want.refusals[NodeId(2)] = NOBODY
    assert asking.outstanding(want)
    want.refusals[NodeId(3)] = NOBODY
    assert not asking.outstanding(want)
    # Somebody who was asked by them said more than that.
    want.refusals[NodeId(1)] = No(SubscribeCode.PUBLISHER_REFUSED, "no")
    assert not asking.outstanding(want)
