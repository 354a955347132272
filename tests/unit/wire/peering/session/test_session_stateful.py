"""Two whole sessions under random legal commands: both agree, and nothing is left over."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.laps2 import (
    Direction,
    Mode,
    Settings,
)
from laps_wire.peering.session import (
    Closed,
    Event,
    NodesAdvertised,
    PeeringSession,
    Role,
    State,
)
from testkit.peering_pair import DIALLER, LISTENER, Pair, agreeable, config, node


class PairMachine(RuleBasedStateMachine):
    """Two sessions, any legal command, any chunking and delay: both sides keep agreeing.

    Streams are lossless here, but a move of the control stream may lose what was under way; after
    the synchronisation that follows, the receiver's sets are the sender's again.
    """

    @initialize(
        mode=st.sampled_from([Mode.BOTH, Mode.DATA, Mode.CONTROL]),
        direction=st.sampled_from(list(Direction)),
        chunk=st.sampled_from([None, 1, 7, 100]),
        delays=st.dictionaries(st.sampled_from([0, 4, 8]), st.sampled_from([0.0, 0.3, 2.0])),
    )
    def begin(
        self,
        mode: Mode,
        direction: Direction,
        chunk: int | None,
        delays: dict[int, float],
    ) -> None:
        settings = Settings(max_sns_sets=4, max_sns_targets=5, hash_check=7)
        self.pair = Pair(
            config(Role.DIALLER, mode=mode, direction=direction, settings=settings),
            config(Role.LISTENER, settings=settings),
            chunk=chunk,
            stream_delay=delays,
            answer=self.answer,
        )
        self.next_stream = 4
        self.sent: tuple[list[int], list[int]] = ([], [])
        self.got: tuple[list[int], list[int]] = ([], [])
        self.lossy = False
        self.pair.dialler.connect(self.pair.now)
        self.pair.run()
        assert self.pair.dialler.established
        assert self.pair.listener.established

    def answer(self, session: PeeringSession, now: float, event: Event) -> None:
        agreeable(session, now, event)
        if isinstance(event, NodesAdvertised):
            side = DIALLER if session is self.pair.dialler else LISTENER
            self.got[side].extend(int(each.node.node_id) for each in event.nodes)

    def running(self) -> bool:
        return all(session.established for session in self.pair.sessions)

    @precondition(lambda self: self.running())
    @rule(side=st.integers(0, 1))
    def send_a_node(self, side: int) -> None:
        session = self.pair.sessions[side]
        number = len(self.sent[side]) + 1
        assert session.rights is not None
        if session.rights.mode.control:
            session.send(self.pair.now, laps2.NodeAdvertise((node(number),)))
            self.sent[side].append(number)

    def sets(self, side: int) -> list[int]:
        forwarding = self.pair.sessions[side].forwarding
        assert forwarding is not None
        return [each.sns_id for each in forwarding.sender]

    @precondition(lambda self: self.running())
    @rule(
        side=st.integers(0, 1),
        nodes=st.sets(st.integers(1, 9).map(NodeId), min_size=1, max_size=5),
        choice=st.integers(0, 9),
    )
    def change_sets(self, side: int, nodes: set[NodeId], choice: int) -> None:
        session, live = self.pair.sessions[side], self.sets(side)
        assert session.rights is not None
        if not session.rights.sends_data:
            return
        if not live or (choice < 5 and len(live) < 4):
            session.advertise_sns(self.pair.now, nodes)
        elif choice < 8:
            session.update_sns(self.pair.now, live[choice % len(live)], nodes)
        else:
            session.withdraw_sns(self.pair.now, live[choice % len(live)])

    @precondition(lambda self: self.running() and self.next_stream <= 12)
    @rule()
    def move_the_control_stream(self) -> None:
        self.pair.dialler.open_control_stream(self.pair.now, self.next_stream)
        self.next_stream += 4
        self.lossy = True

    @precondition(lambda self: self.running())
    @rule(side=st.integers(0, 1), sns_id=st.integers(1, 12))
    def early_data(self, side: int, sns_id: int) -> None:
        session = self.pair.sessions[side]
        assert session.rights is not None
        if session.rights.receives_data:
            session.hold_data(self.pair.now, sns_id, "item", 100)

    @rule(steps=st.integers(1, 12))
    def let_things_arrive(self, steps: int) -> None:
        for side in (DIALLER, LISTENER):
            self.pair.flush(side)
        for _ in range(steps):
            if not self.pair.quiet:
                self.pair.hop()

    @rule(seconds=st.sampled_from([0.1, 1.0, 20.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.pair.advance(seconds)

    @invariant()
    def nobody_has_found_a_fault(self) -> None:
        if not hasattr(self, "pair"):
            return
        for events in self.pair.events:
            for event in events:
                assert not isinstance(event, Closed), event

    @invariant()
    def information_keeps_its_order(self) -> None:
        if not hasattr(self, "pair"):
            return
        for side in (DIALLER, LISTENER):
            assert self.got[side] == sorted(set(self.got[side]))
            assert set(self.got[side]) <= set(self.sent[1 - side])

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        pair = self.pair
        pair.run()
        for side in (DIALLER, LISTENER):
            theirs, ours = pair.sessions[side].forwarding, pair.sessions[1 - side].forwarding
            assert theirs is not None
            assert ours is not None
            assert len(theirs.sender) == len(ours.receiver)
            for each in theirs.sender:
                served = ours.receiver.get(each.sns_id)
                assert served is not None
                assert (served.targets, served.version) == (each.targets, each.version)
            if not self.lossy:
                assert self.got[1 - side] == self.sent[side]
        assert pair.dialler.control_stream == pair.listener.control_stream == self.next_stream - 4
        # The end: every table is as empty as it was in the beginning, on both sides.
        pair.dialler.close(pair.now)
        pair.run()
        for session in pair.sessions:
            assert session.state is State.CLOSED
            assert session.poll_timeout() is None
            assert session.poll_transmit() is None
            forwarding = session.forwarding
            assert forwarding is not None
            assert (len(forwarding.sender), len(forwarding.receiver)) == (0, 0)
            assert (len(forwarding.unknown), forwarding.unknown.used_bytes) == (0, 0)


TestPairMachine = PairMachine.TestCase
