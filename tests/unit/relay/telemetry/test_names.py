from __future__ import annotations

from laps_relay.telemetry.names import Names
from laps_wire.reports import hashed_id
from testkit.relay_views import TRACK


def test_names_are_hashed_unless_told_otherwise() -> None:
    names = Names()
    assert len(names.hashed(TRACK)) == 16
    assert names.logged(TRACK) == names.hashed(TRACK)
    assert Names(plain=True).logged(TRACK) == str(TRACK)
    assert Names(plain=True).hashed(TRACK) != str(TRACK)


def test_one_key_makes_one_hash() -> None:
    assert Names(b"key").hashed(TRACK) == Names(b"key").hashed(TRACK)
    assert Names(b"key").hashed(TRACK) != Names(b"other").hashed(TRACK)
    assert Names().hashed(TRACK) != Names().hashed(TRACK)
    assert Names(b"key").hashed_text("c") == Names(b"key").hashed_text("c")
    assert Names(b"key").hashed_text("c") != Names(b"other").hashed_text("c")
    # Whoever collects reports elsewhere, and has the key, gives an id the same hash.
    assert Names(b"key").hashed_text("c") == hashed_id(b"key", "c")
    assert len(Names().hashed_text("\u00fc" * 128)) == 16
    assert Names(b"key").hashed(TRACK.namespace) != Names(b"key").hashed(TRACK)
