from __future__ import annotations

import pytest

from laps_sdk.quic.webtransport.codepoints import FrameType, H3Code, H3Error, Setting
from laps_sdk.quic.webtransport.control import OPENING, SETTINGS, ControlStream, offers_webtransport
from laps_sdk.quic.webtransport.records import encode_record

SETTINGS_FRAME = OPENING[0][1:]


def frame(kind: int, value: str) -> bytes:
    return encode_record(kind, bytes.fromhex(value))


def test_our_own_settings_are_read_byte_by_byte() -> None:
    stream = ControlStream(from_client=True)
    found = [stream.feed(SETTINGS_FRAME[i : i + 1]) for i in range(len(SETTINGS_FRAME))]
    assert found[-1] == SETTINGS
    assert all(item is None for item in found[:-1])


def test_who_offers_webtransport() -> None:
    assert offers_webtransport(SETTINGS)
    assert not offers_webtransport({})
    assert not offers_webtransport({Setting.ENABLE_CONNECT_PROTOCOL: 1})
    assert not offers_webtransport({Setting.ENABLE_WEBTRANSPORT_02: 1})
    for sign in (
        Setting.ENABLE_WEBTRANSPORT_02,
        Setting.WT_MAX_SESSIONS_07,
        Setting.WT_MAX_SESSIONS_14,
    ):
        assert offers_webtransport({Setting.ENABLE_CONNECT_PROTOCOL: 1, sign: 1})


@pytest.mark.parametrize("from_client", [True, False])
def test_frames_that_may_follow(from_client: bool) -> None:
    stream = ControlStream(from_client=from_client)
    rest = frame(0x21, "00") + frame(0xF0700, "0031") + frame(FrameType.GOAWAY, "08")
    rest += frame(FrameType.GOAWAY, "04")
    if from_client:
        rest += frame(FrameType.MAX_PUSH_ID, "01") + frame(FrameType.MAX_PUSH_ID, "05")
    assert stream.feed(SETTINGS_FRAME + rest) == SETTINGS
    assert stream.feed(b"") is None


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(FrameType.GOAWAY, "00"), H3Code.MISSING_SETTINGS),
        (frame(0x21, "0011")[:-1], H3Code.MISSING_SETTINGS),
        (SETTINGS_FRAME + SETTINGS_FRAME, H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.DATA, ""), H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.HEADERS, "00"), H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.GOAWAY, "01"), H3Code.ID_ERROR),
        (
            SETTINGS_FRAME + frame(FrameType.GOAWAY, "00") + frame(FrameType.GOAWAY, "04"),
            H3Code.ID_ERROR,
        ),
        (SETTINGS_FRAME + frame(FrameType.GOAWAY, ""), H3Code.FRAME_ERROR),
        (SETTINGS_FRAME + frame(FrameType.GOAWAY, "0000"), H3Code.FRAME_ERROR),
        (SETTINGS_FRAME + frame(FrameType.MAX_PUSH_ID, "00"), H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.CANCEL_PUSH, "00"), H3Code.ID_ERROR),
    ],
)
def test_what_a_server_may_not_send(data: bytes, code: H3Code) -> None:
    with pytest.raises(H3Error) as caught:
        ControlStream(from_client=False).feed(data)
    assert caught.value.h3_code == code


def test_max_push_id_may_not_go_back() -> None:
    stream = ControlStream(from_client=True)
    stream.feed(SETTINGS_FRAME + frame(FrameType.MAX_PUSH_ID, "05"))
    with pytest.raises(H3Error) as caught:
        stream.feed(frame(FrameType.MAX_PUSH_ID, "04"))
    assert caught.value.h3_code == H3Code.ID_ERROR
