from __future__ import annotations

from collections.abc import Callable

from laps_relay.sim.net.digest import Channel, WireDigest
from laps_relay.sim.net.messages import SharedMessages
from laps_wire.peering.laps2 import Drain, encode


def digest_of(*calls: Callable[[Channel], None], link: tuple[str, str] = ("a", "b")) -> str:
    digest = WireDigest()
    channel = digest.channel(*link)
    for call in calls:
        call(channel)
    return digest.hexdigest()


def data(
    now: float, stream: int, octets: bytes, *, fin: bool = False, kind: str = "data", code: int = 0
) -> Callable[[Channel], None]:
    return lambda channel: channel.sent(now, kind, stream, octets, fin, code)


def test_everything_that_a_peer_can_see_is_in_it() -> None:
    runs = [
        digest_of(),
        digest_of(data(1.0, 2, b"x")),
        digest_of(data(1.0, 2, b"x"), link=("b", "a")),
        digest_of(data(1.5, 2, b"x")),
        digest_of(data(1.0, 6, b"x")),
        digest_of(data(1.0, 2, b"y")),
        digest_of(data(1.0, 2, b"x", fin=True)),
        digest_of(data(1.0, 2, b"x", kind="datagram")),
        digest_of(data(1.0, 2, b"", kind="reset", code=1)),
        digest_of(data(1.0, 2, b"", kind="reset", code=2)),
        digest_of(data(1.0, 2, b"", kind="stop", code=1)),
        digest_of(lambda channel: channel.closed(1.0, 3)),
        digest_of(lambda channel: channel.dialled(1.0, "b")),
        digest_of(lambda channel: channel.delivered(1.0, 7, 1, 2, 3)),
    ]
    assert len(set(runs)) == len(runs)


def test_how_bytes_of_a_stream_were_cut_does_not_matter() -> None:
    whole = digest_of(data(1.0, 2, b"abcd", fin=True))
    assert digest_of(data(1.0, 2, b"ab"), data(1.0, 2, b"cd"), data(1.0, 2, b"", fin=True)) == whole
    assert digest_of(data(1.0, 2, b"ab"), data(1.1, 2, b"cd", fin=True)) != whole
    one = digest_of(data(1.0, 0, b"abcd", kind="datagram"))
    assert digest_of(*(data(1.0, 0, each, kind="datagram") for each in (b"ab", b"cd"))) != one


def test_which_link_comes_first_does_not_matter() -> None:
    one, other = WireDigest(), WireDigest()
    for digest, links in ((one, ("b", "c")), (other, ("c", "b"))):
        for receiver in links:
            digest.channel("a", receiver).sent(1.0, "data", 2, receiver.encode(), False, 0)
    assert one.hexdigest() == other.hexdigest()


def test_messages_that_were_handed_over_count_as_their_bytes() -> None:
    shared = SharedMessages()
    message = Drain(1000, "", ())
    frame = shared.encode(message, 100)
    assert shared.expand(frame + frame + b"rest") == 2 * encode(message) + b"rest"
    assert shared.expand(b"no frame") == b"no frame"
    shared.decode(frame, 0, 100)
    assert shared.expand(frame) == frame  # nothing that is under way
