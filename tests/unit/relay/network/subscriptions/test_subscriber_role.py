from __future__ import annotations

from laps_relay.network.subscriptions.discovery import Discovery
from laps_relay.network.subscriptions.subscriptions import SubscriberRole
from laps_relay.network.subscriptions.want_records import MAX_REFUSALS
from laps_sdk.timers import first_of
from laps_sdk.upstream.bodies import body_for
from laps_sdk.upstream.interfaces import Answer
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    AnnounceKind,
    Label,
    ParameterId,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import NO_DATA
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

SPACE = namespace("a/b")
NAME = track("a/b/n")
KEY = key_of(NAME)
OK = SubscribeData(18, b"publisher's ok")
YES = (Answer.ACCEPTED, SubscribeCode.ACCEPTED, "", OK.body)
NOBODY = (Answer.REFUSED, SubscribeCode.NO_PUBLISHER, "nobody has announced it", b"")


class Case:
    def __init__(self, *announcers: int, hasher: KeyedHasher = HASHER) -> None:
        self.rig = Rig()
        self.discovery = Discovery(US, HASHER)
        self.wants = SubscriberRole(
            IDENTITY, SETTINGS, hasher, self.discovery, **self.rig.wanting()
        )
        self.discovery.clients = self.wants.clients = self.rig.clients
        self.sequence = 0
        for node in announcers:
            self.announce(node)
        self.rig.taken()

    def announce(self, node: int, name: FullTrackName = SPACE) -> None:
        self.sequence += 1
        kind = AnnounceKind.TRACK if name.name else AnnounceKind.NAMESPACE
        entry = announce_info(node, name, kind, sequence=self.sequence, plain=False)
        self.rig.announces.heard(self.rig.now, node, entry)
        for new in self.discovery.changed(self.rig.now, self.rig.announces.take_changes()):
            self.wants.announced(self.rig.now, new)

    def at(self, now: float) -> None:
        self.rig.now = now
        self.wants.handle_timeout(now)

    def want(self, name: FullTrackName = NAME, data: SubscribeData = NO_DATA) -> None:
        assert self.wants.subscribe(self.rig.now, name, data) is None

    def asked(self) -> SubscribeInfo:
        entry = self.rig.asked(NAME)
        assert entry is not None
        return entry

    def answer(
        self,
        responder: int,
        code: int = SubscribeCode.ACCEPTED,
        reason: str = "",
        *,
        stamp: Stamp | None = None,
        digest: bytes | None = None,
        data: SubscribeData = OK,
    ) -> None:
        entry = self.asked()
        check = HASHER.end_check(NAME.namespace.fields, NAME.name) if digest is None else digest
        parameters = NO_PARAMETERS.with_bytes(ParameterId.FULL_NAME_DIGEST, check)
        response = SubscribeResponse(
            US, KEY, stamp or entry.stamp, NodeId(responder), code, reason, 0, data, parameters
        )
        self.wants.response(self.rig.now, response)

    def node(self, node: int, epoch: int | None) -> None:
        self.rig.know(node, epoch)
        self.wants.node_changed(self.rig.now, NodeId(node))

    def way(self, node: int, there: bool) -> None:
        """Policy leaves a way to a node, or none; the node is known all the same."""
        if there:
            self.rig.cut.discard(NodeId(node))
        else:
            self.rig.cut.add(NodeId(node))
        self.wants.paths_changed(self.rig.now, [NodeId(node)])


def test_one_subscribe_for_a_track_and_the_first_answer_counts() -> None:
    case = Case(1, 2)
    case.want()
    entry = case.asked()
    assert entry.data == body_for(NAME)
    assert entry.scope == (Label("region", "eu"),)
    case.want()
    assert case.asked() is entry
    assert case.rig.taken() == []
    case.answer(1)
    assert case.rig.taken() == [YES]
    case.answer(2, data=NO_DATA)
    assert case.rig.taken() == []
    assert case.wants.serving(KEY) == (NodeId(1), NodeId(2))
    assert case.wants.serving(KEY + 1) == ()
    case.want()
    assert case.rig.taken() == [YES]
    assert len(case.wants) == 1


def test_the_last_unsubscribe_waits_and_a_new_subscribe_cancels_it() -> None:
    case = Case(1)
    case.want()
    case.answer(1)
    case.rig.taken()
    entry = case.asked()
    case.wants.unsubscribe(0.0, NAME)
    case.wants.unsubscribe(1.0, NAME)
    assert case.wants.poll_timeout() == 5.0
    assert first_of(case.wants.clocks) == 5.0
    case.at(4.9)
    lapsed = [case.wants.has_lapsed(case.asked().full_name_hash)]
    case.want()
    lapsed += [case.wants.has_lapsed(key) for key in (case.asked().full_name_hash, 1)]
    assert lapsed == [True, False, False]
    assert case.rig.taken() == [YES]
    case.at(10.0)
    assert case.asked() is entry
    case.wants.unsubscribe(10.0, NAME)
    # What happens meanwhile is nobody's business any more.
    case.answer(1, SubscribeCode.ENDED, "over")
    assert case.rig.taken() == []
    case.at(15.0)
    assert case.rig.asked(NAME) is None
    assert len(case.wants) == 0
    assert case.wants.poll_timeout() is None
    case.wants.unsubscribe(15.0, NAME)
    assert case.rig.taken() == []


def test_nobody_announced_it_is_told_at_once_and_it_may_come_later() -> None:
    case = Case()
    case.want()
    assert case.rig.taken() == [NOBODY]
    entry = case.asked()
    case.want()
    assert case.rig.taken() == [NOBODY]
    assert case.asked() is entry
    case.at(3.0)
    case.announce(1)
    assert case.asked() is entry
    case.answer(1)
    assert case.rig.taken() == [YES]
    case.at(1000.0)
    assert case.asked() is entry


def test_what_nobody_serves_is_advertised_for_a_while_and_again_with_an_announce() -> None:
    case = Case()
    case.want()
    case.rig.taken()
    case.at(60.0)
    assert case.rig.asked(NAME) is None
    assert case.rig.taken() == []
    case.announce(2, track("a/b/other"))
    case.announce(2, namespace("a/c"))
    assert case.rig.asked(NAME) is None
    case.announce(1, NAME)
    assert case.asked().stamp.sequence > 1
    case.answer(1)
    assert case.rig.taken() == [YES]
    case.wants.unsubscribe(61.0, NAME)
    case.at(66.0)
    assert len(case.wants) == 0


def test_a_want_that_is_not_advertised_is_forgotten_at_once() -> None:
    case = Case()
    case.want()
    case.at(60.0)
    case.wants.unsubscribe(60.0, NAME)
    assert (len(case.wants), case.wants.poll_timeout()) == (0, None)


def test_it_has_ended_when_the_last_responder_ended_it() -> None:
    case = Case(1, 2)
    case.want()
    case.answer(1)
    case.answer(2)
    case.rig.taken()
    case.answer(1, SubscribeCode.ENDED, "bye")
    assert case.rig.taken() == []
    case.answer(1, SubscribeCode.ENDED, "bye")
    case.answer(2, SubscribeCode.ENDED, "bye too")
    assert case.rig.taken() == [(Answer.ENDED, SubscribeCode.ENDED, "bye too", OK.body)]
    # It may be published again while it is still advertised.
    case.at(59.0)
    case.answer(2)
    assert case.rig.taken() == [YES]
    case.answer(2, SubscribeCode.ENDED, "bye", data=NO_DATA)
    assert case.rig.taken() == [(Answer.ENDED, SubscribeCode.ENDED, "bye", b"")]
    case.at(119.0)
    assert case.rig.asked(NAME) is None
    assert case.rig.taken() == []


def test_a_responder_out_of_reach_has_ended_after_a_grace() -> None:
    case = Case(1)
    case.want()
    case.answer(1)
    case.rig.taken()
    case.rig.now = 10.0
    case.node(1, None)
    case.node(1, None)
    case.at(14.0)
    case.node(1, 1)
    case.at(30.0)
    assert case.rig.taken() == []
    # Started again: it must answer again.
    case.node(1, 2)
    case.at(33.0)
    case.answer(1)
    case.at(40.0)
    assert case.rig.taken() == []
    case.node(1, None)
    case.at(45.0)
    reason = "the publisher's relay is out of reach"
    assert case.rig.taken() == [(Answer.ENDED, SubscribeCode.UNREACHABLE, reason, b"")]
    case.node(1, 3)
    case.node(2, None)


def test_a_responder_that_is_not_known_yet_is_believed_for_the_grace() -> None:
    case = Case(1)
    case.rig.know(8, None)
    case.want()
    case.answer(8)
    assert case.rig.taken() == [YES]
    case.at(4.0)
    case.node(8, 5)
    case.at(20.0)
    assert case.rig.taken() == []
    case.node(8, 6)
    case.at(25.0)
    assert case.rig.taken()[0][0] is Answer.ENDED


def test_it_is_refused_when_all_who_could_serve_it_refuse() -> None:
    case = Case(1, 2)
    case.want()
    case.answer(1, SubscribeCode.POLICY, "not you", data=NO_DATA)
    assert case.rig.taken() == []
    case.answer(2, SubscribeCode.NO_PUBLISHER, "gone", data=NO_DATA)
    assert case.rig.taken() == [(Answer.REFUSED, SubscribeCode.POLICY, "not you", b"")]
    case.answer(2, SubscribeCode.NO_PUBLISHER, "gone", data=NO_DATA)
    case.answer(3, SubscribeCode.ENDED, "what?")
    case.at(20.0)
    assert case.rig.taken() == []
    case.answer(2)
    assert case.rig.taken() == [YES]
    case.answer(1, 99, "later", data=NO_DATA)
    assert case.rig.taken() == []


def test_a_refusal_is_told_soon_even_if_others_are_silent() -> None:
    case = Case(1, 2)
    case.want()
    case.at(1.0)
    case.answer(1, SubscribeCode.PUBLISHER_REFUSED, "no", data=OK)
    case.answer(3, SubscribeCode.LIMIT, "no", data=OK)
    # Asking again does not take the refusal back.
    case.at(5.0)
    case.answer(1, SubscribeCode.PUBLISHER_REFUSED, "no", data=OK)
    case.at(6.0)
    assert case.rig.taken() == [(Answer.REFUSED, SubscribeCode.PUBLISHER_REFUSED, "no", OK.body)]


def test_a_verdict_after_everybody_answered_says_nothing_new() -> None:
    case = Case(1, 2)
    case.want()
    case.answer(1, SubscribeCode.POLICY, "no", data=NO_DATA)
    case.answer(2, SubscribeCode.POLICY, "no", data=NO_DATA)
    assert len(case.rig.taken()) == 1
    case.at(6.0)
    assert case.rig.taken() == []


def test_the_verdict_of_a_former_asking_is_not_one_of_the_next() -> None:
    """Found by a network of the simulator with two publishers: planned, seed 14, 8 relays."""
    case = Case(1, 2)
    case.want()
    case.answer(1, SubscribeCode.POLICY, "no", data=NO_DATA)  # another one may say yes ...
    case.answer(2, SubscribeCode.POLICY, "no", data=NO_DATA)  # ... and does not
    no = (Answer.REFUSED, SubscribeCode.POLICY, "no", b"")
    assert case.rig.taken() == [no]
    case.at(0.9)
    case.want()
    case.at(1.1)  # it is asked again, and nobody has had the time to answer
    assert case.rig.taken() == []
    case.answer(1, SubscribeCode.POLICY, "no", data=NO_DATA)
    case.answer(2, SubscribeCode.POLICY, "no", data=NO_DATA)
    assert case.rig.taken() == [no]


def test_silence_is_asked_again_and_then_a_refusal() -> None:
    case = Case(1)
    case.want()
    stamps = [case.asked().stamp]
    for now in (5.0, 15.0, 35.0):
        case.at(now)
        stamps.append(case.asked().stamp)
    assert stamps == sorted(set(stamps))
    # An answer to what was asked before is not one.
    case.answer(1, stamp=stamps[0])
    assert (case.rig.taken(), case.wants.dropped) == ([], 1)
    case.at(60.0)
    assert case.rig.taken() == [
        (Answer.REFUSED, SubscribeCode.NO_PUBLISHER, "nobody answered", b"")
    ]
    assert case.rig.asked(NAME) is None
    unknown = SubscribeResponse(US, 1, Stamp(7, 1), NodeId(1), 0)
    case.wants.response(60.0, unknown)
    assert case.wants.dropped == 2


def test_clients_who_come_back_are_asked_for_anew_but_not_all_the_time() -> None:
    case = Case(1)
    case.want()
    case.answer(1, SubscribeCode.PUBLISHER_REFUSED, "no", data=NO_DATA)
    assert len(case.rig.taken()) == 1
    first = case.asked()
    case.at(0.5)
    case.want()
    assert case.asked() is first
    case.at(1.0)
    second = case.asked()
    assert second.stamp > first.stamp
    case.answer(1, SubscribeCode.PUBLISHER_REFUSED, "no", data=NO_DATA)
    assert len(case.rig.taken()) == 1
    case.at(3.0)
    case.want()
    assert case.asked().stamp > second.stamp
    case.answer(1)
    assert case.rig.taken() == [YES]


def body(group: int | None = None, priority: int | None = None) -> SubscribeData:
    parameters = Parameters(new_group_request=group, subscriber_priority=priority)
    message = Subscribe(0, NAME, parameters)
    return SubscribeData(Draft.D18, encode_subscribe_body(message, Draft.D18))


def test_something_else_of_a_track_is_asked_for_at_most_once_in_a_batching_time() -> None:
    case = Case(1)
    case.want(data=body())
    case.answer(1)
    case.rig.taken()
    first = case.asked()
    case.at(10.0)
    case.want(data=body())
    assert case.asked() is first
    case.want(data=body(group=4))
    second = case.asked()
    assert second.stamp > first.stamp
    assert second.data == body(group=4)
    # Who serves it goes on, and answers anew; nobody here notices.
    assert case.rig.taken() == [YES, YES]
    case.answer(1)
    assert case.rig.taken() == []
    for group in (5, 6):
        case.want(data=body(group=group))
        assert case.asked() is second
    assert case.wants.poll_timeout() == 10.0 + SETTINGS.batch
    case.at(10.0 + SETTINGS.batch)
    assert case.asked().data == body(group=6)
    case.rig.taken()
    assert case.wants.poll_timeout() == 15.0 + SETTINGS.batch
    case.at(100.0)
    assert (case.rig.taken(), case.wants.poll_timeout()) == ([], None)


def test_a_change_that_is_taken_back_is_none() -> None:
    case = Case(1)
    case.want(data=body())
    first = case.asked()
    case.want(data=body(priority=3))
    case.want(data=body())
    case.at(1.0)
    assert case.asked() is first
    case.want(data=body(priority=3))
    assert case.asked().data == body(priority=3)
    # It is gone before it could be told.
    case.want(data=body(priority=4))
    case.wants.unsubscribe(1.0, NAME)
    case.rig.rules.names.add(NAME)
    case.wants.reconsider(1.0)
    case.at(2.0)
    assert case.rig.asked(NAME) is None


def test_what_nobody_has_yet_is_asked_for_as_it_is_wanted_last() -> None:
    case = Case()
    case.want(data=body())
    case.at(5.0)
    case.want(data=body(priority=3))
    assert case.asked().data == body(priority=3)
    assert case.rig.taken() == [NOBODY, NOBODY]


def test_control_servers_say_that_nobody_is_there() -> None:
    case = Case()
    case.rig.servers = (NodeId(2), NodeId(3))
    case.want()
    assert case.rig.taken() == []
    case.answer(2, SubscribeCode.NO_PUBLISHER, "nobody", data=NO_DATA)
    assert case.rig.taken() == []
    case.answer(3, SubscribeCode.NO_PUBLISHER, "nobody", data=NO_DATA)
    assert case.rig.taken() == [(Answer.REFUSED, SubscribeCode.NO_PUBLISHER, "nobody", b"")]
    case.answer(8)
    assert case.rig.taken() == [YES]


def test_an_origin_behind_control_servers_refuses_at_once() -> None:
    case = Case()
    case.rig.servers = (NodeId(2), NodeId(3))
    case.want()
    case.answer(8, SubscribeCode.POLICY, "not you", data=NO_DATA)
    assert case.rig.taken() == [(Answer.REFUSED, SubscribeCode.POLICY, "not you", b"")]


def test_an_answer_about_another_name_is_no_answer() -> None:
    case = Case(1)
    case.want()
    case.answer(1, digest=bytes(16))
    reason = "the publisher's relay means another name"
    assert case.rig.taken() == [(Answer.REFUSED, SubscribeCode.HASH_COLLISION, reason, b"")]
    assert case.wants.collisions == 1


def test_refusals_that_somebody_invents_are_not_all_kept() -> None:
    case = Case(1)
    case.want()
    for responder in range(100, 100 + MAX_REFUSALS + 10):
        case.answer(responder, SubscribeCode.POLICY)
    assert case.wants.dropped == 10
    case.answer(100, SubscribeCode.POLICY)  # it may say something else
    assert case.wants.dropped == 10
    case.answer(1, SubscribeCode.PUBLISHER_REFUSED)  # it was asked
    assert case.wants.dropped == 10


class OneHash(KeyedHasher):
    """Every full name has the same hash."""

    __slots__ = ()

    def full_name(self, fields: object, name: bytes) -> int:
        return KEY


def test_a_second_name_with_the_same_hash_is_refused_and_counted() -> None:
    case = Case(1, hasher=OneHash(HASHER.key))
    case.want()
    denial = case.wants.subscribe(0.0, track("x/y"), NO_DATA)
    assert denial is not None
    assert denial.code is SubscribeCode.HASH_COLLISION
    assert (case.wants.collisions, len(case.wants)) == (1, 1)
    case.wants.unsubscribe(0.0, track("x/y"))
    case.at(6.0)
    assert len(case.wants) == 1


def test_our_own_policy_is_told_at_once_and_can_change() -> None:
    case = Case(1)
    case.rig.rules.names = {NAME}
    case.want()
    no = (Answer.REFUSED, SubscribeCode.POLICY, "not here", b"")
    assert case.rig.taken() == [("refused", 100, SubscribeCode.POLICY), no]
    assert case.rig.asked(NAME) is None
    case.wants.reconsider(1.0)
    assert case.rig.taken() == []
    case.announce(1)
    assert case.rig.asked(NAME) is None
    case.rig.rules.names = set()
    case.wants.reconsider(1.0)
    assert case.asked() is not None
    case.answer(1)
    assert case.rig.taken() == [YES]
    case.wants.reconsider(2.0)
    assert case.rig.taken() == []
    case.rig.rules.names = {NAME}
    case.wants.reconsider(3.0)
    assert case.rig.taken() == [("refused", 100, SubscribeCode.POLICY), no]
    assert case.rig.asked(NAME) is None
    assert case.wants.poll_timeout() is None


def test_a_local_side_may_give_up_while_it_is_told() -> None:
    case, other = Case(1), track("a/b/m")
    told = case.rig.answered

    def give_up(*args: object, **more: object) -> None:
        told(*args, **more)  # type: ignore[arg-type] # passed through as it came
        for name in (NAME, other):
            case.wants.unsubscribe(0.0, name)

    case.rig.rules.names = {other}
    case.want()
    case.want(other)
    case.rig.rules.names = {NAME, other}
    case.rig.answered = give_up  # type: ignore[method-assign] # the local side's reaction
    case.wants.reconsider(0.0)
    assert (len(case.wants), case.wants.poll_timeout()) == (0, None)


def test_without_node_information_of_our_own_there_is_no_policy() -> None:
    case = Case(1)
    case.rig.known.pop(US)
    case.rig.rules.names = {NAME}
    case.want()
    assert case.asked() is not None


def test_who_is_served_asks_again_when_a_relay_lets_the_subscribe_pass_no_more() -> None:
    case = Case(1, 2)
    case.want()
    case.answer(1)
    case.answer(2)
    case.rig.taken()
    first = case.asked()
    case.answer(9, SubscribeCode.POLICY, "not in the EU")
    entry = case.asked()
    assert entry.stamp > first.stamp
    # It says the same of the new stamp, and so does another one: nothing follows from that.
    case.answer(9, SubscribeCode.POLICY, "not in the EU")
    case.answer(8, SubscribeCode.POLICY, "not at all")
    assert case.asked() is entry
    # Another way leads to 1, none to 2.
    case.answer(1)
    case.at(1.0)
    assert (case.rig.taken(), case.wants.poll_timeout()) == ([], None)
    case.answer(2, SubscribeCode.ENDED, "late")
    assert case.rig.taken() == []
    # Once more, and now there is no other way.
    case.answer(9, SubscribeCode.POLICY, "not in the EU")
    assert case.asked().stamp > entry.stamp
    # What else is asked meanwhile has its time, too.
    message = Subscribe(0, NAME, Parameters(new_group_request=7))
    case.at(1.5)
    case.want(data=SubscribeData(18, encode_subscribe_body(message, Draft.D18)))
    assert case.rig.taken() == [YES]
    case.answer(9, SubscribeCode.POLICY, "not in the EU")
    case.at(2.0)
    assert case.rig.taken() == []
    case.at(2.5)
    assert case.rig.taken() == [(Answer.ENDED, SubscribeCode.POLICY, "not in the EU", OK.body)]
    # It stays advertised: when policy changes, whoever serves it says so.
    case.at(1000.0)
    case.answer(1)
    assert case.rig.taken() == [YES]


def test_who_ends_it_for_policy_says_so_once_more() -> None:
    case = Case(1, 2)
    case.want()
    case.answer(1)
    assert case.rig.taken() == [YES]
    case.answer(1, SubscribeCode.POLICY, "not you")
    assert [each[:2] for each in case.rig.taken()] == [(Answer.ENDED, SubscribeCode.POLICY)]
    case.answer(1, SubscribeCode.POLICY, "not you")
    case.at(4.0)
    assert case.rig.taken() == []


def test_other_refusals_say_nothing_about_what_is_served() -> None:
    case = Case(1, 2)
    case.want()
    case.answer(1)
    entry = case.asked()
    case.answer(2, SubscribeCode.PUBLISHER_REFUSED, "not you")
    assert case.asked() is entry
    case.wants.unsubscribe(0.0, NAME)
    case.at(6.0)
    assert case.wants.poll_timeout() is None


def test_a_doubt_ends_with_the_want() -> None:
    case = Case(1)
    case.want()
    case.answer(1)
    case.answer(9, SubscribeCode.POLICY, "no")
    case.rig.rules.names = {NAME}
    case.wants.reconsider(0.5)
    assert case.wants.poll_timeout() is None


CUT_OFF = (
    Answer.ENDED,
    SubscribeCode.POLICY,
    "policy leaves no way to the publisher's relay",
    b"",
)


def test_it_ends_when_policy_leaves_no_way_to_all_who_serve_it() -> None:
    case = Case(1, 2)
    case.way(1, there=True)
    case.want()
    case.answer(1)
    case.answer(2)
    case.rig.taken()
    first = case.asked()
    case.way(1, there=False)
    case.way(1, there=False)
    case.at(5.0)
    # Another one still serves it.
    assert case.asked() is first
    case.way(2, there=False)
    case.at(9.0)
    case.way(2, there=True)
    case.at(20.0)
    assert case.asked() is first
    case.way(2, there=False)
    case.at(25.0)
    # They may have a way to us all the same.
    assert case.asked().stamp > first.stamp
    assert case.rig.taken() == []
    case.at(26.0)
    assert case.rig.taken() == [CUT_OFF]
    # It stays advertised, and is asked for again when a way is there.
    case.at(1000.0)
    second = case.asked()
    assert case.rig.taken() == []
    case.way(1, there=True)
    case.at(1000.0)
    third = case.asked()
    assert third.stamp > second.stamp
    case.answer(1)
    assert case.rig.taken() == [YES]
    case.way(2, there=True)
    case.at(2000.0)
    assert case.asked() is third
    assert (case.rig.taken(), case.wants.poll_timeout()) == ([], None)


def test_who_serves_it_over_a_way_that_we_may_not_use_goes_on() -> None:
    case = Case(1)
    case.rig.cut.add(NodeId(1))
    case.want()
    case.answer(1)
    case.rig.taken()
    first = case.asked()
    case.at(5.0)
    assert case.asked().stamp > first.stamp
    case.answer(1)
    case.at(100.0)
    assert (case.rig.taken(), case.wants.poll_timeout()) == ([], None)


def test_a_way_that_comes_and_goes_does_not_make_us_ask_all_the_time() -> None:
    case = Case(1)
    case.want()
    case.answer(1)
    case.way(1, there=False)
    case.at(5.0)
    case.at(6.0)
    case.way(1, there=True)
    asked = case.asked()
    case.at(6.0)
    assert case.asked().stamp > asked.stamp
    case.answer(1)
    case.way(1, there=False)
    case.at(11.0)
    case.at(12.0)
    assert case.rig.taken()[-1] == CUT_OFF
    case.want()
    asked = case.asked()
    case.way(1, there=True)
    case.answer(1)
    case.at(13.0)
    assert case.asked() is asked
    assert case.rig.taken() == [YES]
    case.wants.unsubscribe(13.0, NAME)
    case.at(20.0)
    assert case.wants.poll_timeout() is None
