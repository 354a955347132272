"""QuicR URLs: their text, the track and the short name that each stands for, and media times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError, TextFormError
from laps_wire.hashing import field_hash
from laps_wire.names import FullTrackName, Namespace
from laps_wire.quicr.quicrurl import MAX_MEDIA_TIME, QuicrUrl, format_media_time, parse_media_time
from laps_wire.quicr.shortname import CONFERENCE, NameLayout, ShortName

FIELDS = st.binary(min_size=1, max_size=8)
TIMES = st.integers(0, MAX_MEDIA_TIME)


@st.composite
def urls(draw: st.DrawFn) -> QuicrUrl:
    domain = draw(st.sampled_from(["acme.example", "a", "192.0.2.1", "[::1]", "[2001:db8::5]"]))
    port = draw(st.none() | st.integers(1, 65535))
    count = draw(st.integers(0, 4))
    resource, sender, source = (draw(FIELDS) if index < count else None for index in range(3))
    return QuicrUrl(domain, port, resource, sender, source, draw(TIMES) if count == 4 else None)


# Text

FULL = QuicrUrl("acme.example", 4433, b"meeting123", b"alice", b"cam5", 1000)


@pytest.mark.parametrize(
    ("text", "url", "canonical"),
    [
        (
            "quicr://acme.example:4433/meeting123/alice/cam5/t1000/",
            FULL,
            "quicr://acme.example:4433/meeting123/alice/cam5/1970-01-01T00-00-01.000Z/",
        ),
        (
            "quicr://acme.example:4433/meeting123/alice/cam5/1000",
            FULL,
            "quicr://acme.example:4433/meeting123/alice/cam5/1970-01-01T00-00-01.000Z/",
        ),
        (
            "quicr://acme.meetings.com/meeting123/*",
            QuicrUrl("acme.meetings.com", None, b"meeting123"),
            "quicr://acme.meetings.com/meeting123/*",
        ),
        (
            "quicr://ACME.meetings.com/Meeting123",
            QuicrUrl("acme.meetings.com", None, b"Meeting123"),
            "quicr://acme.meetings.com/Meeting123/*",
        ),
        ("quicr://a", QuicrUrl("a"), "quicr://a/*"),
        ("quicr://a/", QuicrUrl("a"), "quicr://a/*"),
        ("quicr://a/*", QuicrUrl("a"), "quicr://a/*"),
        ("quicr://a/*/", QuicrUrl("a"), "quicr://a/*"),
        ("quicr://a:1/r/s/", QuicrUrl("a", 1, b"r", b"s"), "quicr://a:1/r/s/*"),
        ("quicr://a:65535/r/s/c/*", QuicrUrl("a", 65535, b"r", b"s", b"c"), None),
        ("quicr://[::1]:80/r/*", QuicrUrl("[::1]", 80, b"r"), None),
        ("quicr://[2001:DB8:0::1]/*", QuicrUrl("[2001:db8::1]"), "quicr://[2001:db8::1]/*"),
        ("quicr://a/%2F%2A%ff/*", QuicrUrl("a", None, b"/*\xff"), "quicr://a/%2F%2A%FF/*"),
        ("quicr://a/%61-._~/*", QuicrUrl("a", None, b"a-._~"), "quicr://a/a-._~/*"),
        ("quicr://a/a:b@c;d=e+f/*", QuicrUrl("a", None, b"a:b@c;d=e+f"), None),
    ],
)
def test_texts(text: str, url: QuicrUrl, canonical: str | None) -> None:
    parsed = QuicrUrl.parse(text)
    assert parsed == url
    assert QuicrUrl.parse(str(parsed)) == url
    if canonical is not None:
        assert str(parsed) == canonical


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must begin with 'quicr://', at the end"),
        ("http://a/", "must begin with 'quicr://', at character 1"),
        ("quicr:/a/", "must begin with 'quicr://', at character 1"),
        ("quicr://", "'' is not a lower-case host name, at the end"),
        ("quicr:///r", "'' is not a lower-case host name, at character 9"),
        ("quicr://a..b/", "'a..b' is not a lower-case host name, at character 9"),
        ("quicr://-a/", "'-a' is not a lower-case host name, at character 9"),
        ("quicr://a-/", "'a-' is not a lower-case host name, at character 9"),
        ("quicr://u@a/", "'u@a' is not a lower-case host name, at character 9"),
        ("quicr://b\xfccher/", "is not a lower-case host name, at character 9"),
        ("quicr://" + "a" * 64 + "/", "is not a lower-case host name"),
        ("quicr://" + "a." * 127 + "/", "is not a lower-case host name"),
        ("quicr://[::g]/", "'[::g]' is not an IPv6 address, at character 9"),
        ("quicr://[::1/", "no ']' after the IPv6 address, at character 13"),
        ("quicr://[::1", "no ']' after the IPv6 address, at the end"),
        ("quicr://a//", "an empty field, at character 11"),
        ("quicr://[::1]x/", "is not an IPv6 address in its shortest form, at character 9"),
        ("quicr://a:/", "the port must be a number, 1 to 65535, at character 11"),
        ("quicr://a:", "the port must be a number, 1 to 65535, at the end"),
        ("quicr://a:0/", "the port must be a number, 1 to 65535, at character 11"),
        ("quicr://a:65536/", "the port must be a number, 1 to 65535, at character 11"),
        ("quicr://a:080/", "the port must be a number, 1 to 65535, at character 11"),
        ("quicr://a:+1/", "the port must be a number, 1 to 65535, at character 11"),
        ("quicr://a:" + "1" * 5000, "the port must be a number, 1 to 65535, at character 11"),
        ("quicr://a//s", "an empty field, at character 11"),
        ("quicr://a/r//", "an empty field, at character 13"),
        ("quicr://a/*/s", "a star can only stand for the end of a name, at character 11"),
        ("quicr://a/r*", "a star can only stand for the end of a name, at character 12"),
        ("quicr://a/**", "a star can only stand for the end of a name, at character 11"),
        ("quicr://a/r?q", "'?' must be written as '%' and two hex digits a byte, at character 12"),
        ("quicr://a/r#f", "'#' must be written as '%'"),
        ("quicr://a/r\xe9", r"'\xe9' must be written as '%'"),
        ("quicr://a/%", "'%' must be followed by two hex digits, at character 11"),
        ("quicr://a/%4", "'%' must be followed by two hex digits, at character 11"),
        ("quicr://a/%4/1", "'%' must be followed by two hex digits, at character 11"),
        ("quicr://a/x%+1", "'%' must be followed by two hex digits, at character 12"),
        ("quicr://a/r/s/c/now", "a media time is a number of milliseconds or like"),
        ("quicr://a/r/s/c/17592186044416", "does not fit 44 bits, at character 17"),
        ("quicr://a/r/s/c//", "an empty field, at character 17"),
        ("quicr://a/r/s/c/1/x", "a field after the time, at character 18"),
        ("quicr://a/r/s/c/1/*", "a field after the time, at character 18"),
        ("quicr://a/" + "r" * 4096, "over 4096 bytes of names, at the end"),
    ],
)
def test_a_bad_text_is_pointed_at(text: str, complaint: str) -> None:
    with pytest.raises(TextFormError) as caught:
        QuicrUrl.parse(text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("QuicR URL '")
    example = "quicr://acme.example:4433/meeting123/alice/cam5/*"
    assert str(caught.value).endswith(f"; a good one is '{example}'")
    assert QuicrUrl.parse(example).source == b"cam5"


@given(urls())
def test_every_url_has_a_text_that_gives_it_back(url: QuicrUrl) -> None:
    assert QuicrUrl.parse(str(url)) == url
    assert str(url).isascii()
    assert str(url).endswith("/*") is url.is_wildcard


@given(st.text(st.sampled_from("a1:/*%4.-[]tT"), max_size=24))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        url = QuicrUrl.parse(f"quicr://{text}")
    except TextFormError:
        return
    assert QuicrUrl.parse(str(url)) == url


# Values


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("Acme",), "'Acme' is not a lower-case host name"),
        (("",), "'' is not a lower-case host name"),
        (("[::0]",), "is not an IPv6 address in its shortest form"),
        (("[::1",), "is not an IPv6 address in its shortest form"),
        (("a", 0), "port 0 is outside 1 to 65535"),
        (("a", 65536), "port 65536 is outside"),
        (("a", None, None, b"s"), "sender is given, but not the field before it"),
        (("a", None, b"r", None, b"c"), "source is given, but not the field before it"),
        (("a", None, b"r", b"s", None, 1), "time is given, but not the field before it"),
        (("a", None, b""), "resource is empty"),
        (("a", None, b"r", b"s", b""), "source is empty"),
        (("a", None, b"r", b"s", b"c", 1 << 44), "time 17592186044416 does not fit 44 bits"),
        (("a", None, b"r", b"s", b"c", -1), "time -1 does not fit 44 bits"),
        (("a", None, b"r" * 4000, b"s" * 96), "over 4096 bytes of names"),
    ],
)
def test_what_is_not_a_url(
    arguments: tuple[str, int | None, bytes | None, bytes | None, bytes | None, int | None],
    complaint: str,
) -> None:
    with pytest.raises(EncodeError) as caught:
        QuicrUrl(*arguments)
    assert complaint in str(caught.value)


def test_the_longest_names_fit() -> None:
    url = QuicrUrl("a", None, b"r" * 4000, b"s" * 94, b"c")
    assert url.full_track_name is not None
    assert url.full_track_name.size == 4096


# Tracks


def test_the_track_of_a_url() -> None:
    assert FULL.namespace == Namespace.of(b"acme.example", b"meeting123", b"alice")
    assert FULL.full_track_name == FullTrackName(FULL.namespace, b"cam5")
    meeting = QuicrUrl.parse("quicr://acme.example/meeting123/*")
    assert meeting.namespace == Namespace.of(b"acme.example", b"meeting123")
    assert meeting.full_track_name is None
    assert meeting.namespace.is_prefix_of(FULL.namespace)
    assert QuicrUrl("a").namespace == Namespace.of(b"a")


def test_the_url_of_a_track() -> None:
    track = FullTrackName(Namespace.of(b"acme.example", b"meeting123", b"alice"), b"cam5")
    url = QuicrUrl.from_full_track_name(track)
    assert str(url) == "quicr://acme.example/meeting123/alice/cam5/*"
    assert url.full_track_name == track


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ((b"a", b"r"), b"c"),
        ((b"a", b"r", b"s", b"x"), b"c"),
        ((b"\xff", b"r", b"s"), b"c"),
        ((b"a", b"r", b"s"), b""),
    ],
)
def test_a_track_that_has_no_url(fields: tuple[bytes, ...], name: bytes) -> None:
    with pytest.raises(EncodeError, match="QuicR URL"):
        QuicrUrl.from_full_track_name(FullTrackName(Namespace(fields), name))


# Short names


def test_numbers_are_themselves_in_the_short_name() -> None:
    url = QuicrUrl.parse("quicr://a/1/2/3/1000/")
    assert url.short_name() == CONFERENCE.pack(1, 2, 3, 1000)
    assert str(url.short_name()) == "000000000100000008003000000003e8/128"
    assert QuicrUrl.parse("quicr://a/0/0/0/0").short_name() == ShortName(0)


def test_texts_are_hashed_to_the_width_of_their_field() -> None:
    name = QuicrUrl.parse("quicr://acme.example/meeting123/alice/cam5/t1000/").short_name()
    assert str(name) == "89e69cd15b45d3947b259000000003e8/128"
    assert CONFERENCE.unpack(name) == (
        field_hash(b"meeting123", 40),
        field_hash(b"alice", 30),
        field_hash(b"cam5", 14),
        1000,
    )


@pytest.mark.parametrize(("count", "length"), [(0, 0), (1, 40), (2, 70), (3, 84)])
def test_a_truncated_url_is_a_prefix(count: int, length: int) -> None:
    fields = ["1", "bob", "7"][:count]
    url = QuicrUrl.parse("/".join(["quicr://a", *fields]))
    name = url.short_name()
    assert name.length == length
    assert name.covers(QuicrUrl.parse("quicr://a/1/bob/7/5").short_name())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("quicr://a/007", "resource 007 has a leading zero"),
        ("quicr://a/1/1073741824", "sender 1073741824 does not fit 30 bits"),
        ("quicr://a/1/2/16384", "source 16384 does not fit 14 bits"),
        ("quicr://a/" + "9" * 40, "does not fit 40 bits"),
        ("quicr://a/" + "9" * 4000, "does not fit 40 bits"),
    ],
)
def test_a_number_is_never_cut_to_its_field(text: str, complaint: str) -> None:
    with pytest.raises(EncodeError, match=complaint):
        QuicrUrl.parse(text).short_name()


def test_other_widths_and_other_counts_of_fields() -> None:
    wide = NameLayout((("room", 16), ("user", 16), ("stream", 32), ("time", 64)))
    assert QuicrUrl.parse("quicr://a/1/2/3/4").short_name(wide) == wide.pack(1, 2, 3, 4)
    with pytest.raises(EncodeError, match="a layout of 2 fields, not of 4"):
        FULL.short_name(NameLayout((("a", 64), ("b", 64))))
    tiny = NameLayout((("a", 64), ("b", 32), ("c", 31), ("d", 1)))
    with pytest.raises(EncodeError, match="d 1000 does not fit 1 bits"):
        FULL.short_name(tiny)


@given(urls(), st.integers(0, 3))
def test_truncating_widens_the_short_name(url: QuicrUrl, count: int) -> None:
    fields = [url.resource, url.sender, url.source]
    resource, sender, source = (
        field if index < count else None for index, field in enumerate(fields)
    )
    wider = QuicrUrl(url.domain, url.port, resource, sender, source)
    try:
        name = url.short_name()
    except EncodeError:
        return  # a number too large for its field
    assert wider.short_name().covers(name)
    assert wider.namespace.is_prefix_of(url.namespace)


# Media time


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00-00-00.000Z", 0),
        ("1970-01-02T00-00-00.000Z", 86_400_000),
        ("1990-12-31T23-59-59.601Z", 662_687_999_601),
        ("2000-02-29T01-02-03.004Z", 951_786_123_004),
        ("2527-06-23T06-20-44.415Z", MAX_MEDIA_TIME),
    ],
)
def test_media_times(text: str, milliseconds: int) -> None:
    assert format_media_time(milliseconds) == text
    assert parse_media_time(text) == milliseconds
    assert parse_media_time(str(milliseconds)) == milliseconds
    assert parse_media_time(f"t{milliseconds}") == milliseconds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a number of milliseconds or like '1990-12-31T23-59-59.601Z'"),
        ("t", "a number of milliseconds or like"),
        ("tt1", "a number of milliseconds or like"),
        ("01", "a number of milliseconds or like"),
        ("-1", "a number of milliseconds or like"),
        ("\u0661", "a number of milliseconds or like"),
        ("1990-12-31T23-59.601Z", "a number of milliseconds or like"),
        ("1990-12-31T23:59:59.601Z", "a number of milliseconds or like"),
        ("1990-12-31T23-59-59.601", "a number of milliseconds or like"),
        ("1990-12-31T24-00-00.000Z", "no such time of day"),
        ("1990-12-31T23-60-00.000Z", "no such time of day"),
        ("1990-12-31T23-59-60.000Z", "no such time of day"),
        ("1990-02-29T00-00-00.000Z", "no such day"),
        ("0000-01-01T00-00-00.000Z", "no such day"),
        ("1969-12-31T23-59-59.999Z", "does not fit 44 bits"),
        ("2527-06-23T06-20-44.416Z", "does not fit 44 bits"),
        ("17592186044416", "does not fit 44 bits"),
        ("1" * 5000, "does not fit 44 bits"),
    ],
)
def test_what_is_not_a_media_time(text: str, complaint: str) -> None:
    with pytest.raises(TextFormError) as caught:
        parse_media_time(text)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("media time '")


@pytest.mark.parametrize("milliseconds", [-1, MAX_MEDIA_TIME + 1])
def test_a_media_time_outside_44_bits_is_not_written(milliseconds: int) -> None:
    with pytest.raises(EncodeError, match="does not fit 44 bits"):
        format_media_time(milliseconds)


@given(TIMES)
def test_media_times_agree_with_the_calendar(milliseconds: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    expected = f"{moment:%Y-%m-%dT%H-%M-%S}.{milliseconds % 1000:03}Z"
    assert format_media_time(milliseconds) == expected
    assert parse_media_time(expected) == milliseconds
