from __future__ import annotations

from laps_relay.network.subscriptions.discovery import Discovery
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind, AnnounceWithdrawal, Stamp
from testkit.subscription_rig import HASHER, US, Rig, announce_info, namespace, track

SPACE = namespace("a/b")
NAME = track("a/b/n")


class Case:
    def __init__(self) -> None:
        self.rig = Rig()
        self.discovery = Discovery(US, HASHER)
        self.discovery.clients = self.rig.clients

    def heard(self, session: int, entry: AnnounceInfo) -> list[AnnounceInfo]:
        self.rig.announces.heard(0.0, session, entry)
        return self.changed()

    def gone(self, session: int, entry: AnnounceInfo, sequence: int = 9) -> None:
        withdrawal = AnnounceWithdrawal(
            entry.source, Stamp(1, sequence), entry.kind, entry.full_name_hash
        )
        self.rig.announces.heard_withdrawal(0.0, session, withdrawal)
        self.changed()

    def changed(self) -> list[AnnounceInfo]:
        return self.discovery.changed(0.0, self.rig.announces.take_changes())

    def announcers(self) -> list[NodeId]:
        elements = HASHER.elements(NAME.namespace.fields)
        return self.discovery.announcers(elements, HASHER.name(NAME.name))


def test_a_name_is_discovered_once_and_vanishes_with_the_last_who_has_it() -> None:
    case = Case()
    one, two = announce_info(1, SPACE), announce_info(2, SPACE)
    assert case.heard(1, one) == [one]
    assert case.heard(2, two) == [two]
    assert case.rig.taken() == [("discovered", SPACE)]
    assert case.announcers() == [1, 2]
    case.gone(1, one)
    assert case.rig.taken() == []
    assert case.announcers() == [2]
    case.gone(2, two)
    assert case.rig.taken() == [("vanished", AnnounceKind.NAMESPACE, SPACE)]
    assert case.announcers() == []


def test_an_announce_that_is_said_again_is_nothing_new_to_clients() -> None:
    case = Case()
    case.heard(1, announce_info(1, SPACE))
    case.heard(1, announce_info(1, SPACE, sequence=2))
    assert case.rig.taken() == [("discovered", SPACE)]
    case.heard(1, announce_info(1, SPACE, sequence=3, plain=False))
    assert case.rig.taken() == [("vanished", AnnounceKind.NAMESPACE, SPACE)]
    assert case.announcers() == [1]


def test_a_track_and_its_namespace_are_two_announces() -> None:
    case = Case()
    case.heard(1, announce_info(1, SPACE))
    case.heard(1, announce_info(1, NAME, AnnounceKind.TRACK))
    assert case.rig.taken() == [("discovered", SPACE), ("discovered", NAME)]
    assert case.announcers() == [1]


def test_our_own_are_not_discovered() -> None:
    case = Case()
    entry = announce_info(100, SPACE)
    case.rig.announces.originate(0.0, entry)
    assert case.changed() == []
    assert case.rig.taken() == []
    assert case.announcers() == []


def test_a_name_that_does_not_have_its_hash_is_not_believed() -> None:
    case = Case()
    other = KeyedHasher(b"the key of another network")
    entry = announce_info(1, SPACE, hasher=other)
    assert case.heard(1, entry) == [entry]
    assert case.rig.taken() == []
    assert case.discovery.false_names == 1
    case.gone(1, entry)
    assert case.rig.taken() == []
