from __future__ import annotations

from laps_relay.config.limits import Cache, Connection, Egress, Limits, Plane


def test_every_limit_can_be_set_in_words() -> None:
    limits = Limits.model_validate(
        {"linger": "2s", "egress": {"max_bytes": "1MiB"}, "plane": {"pending_time": "1s"}}
    )
    assert limits.linger == 2.0
    assert limits.egress.max_bytes == 1 << 20
    assert limits.plane == Plane(pending_time=1.0)
    assert limits.connection == Connection()
    assert Egress().low_water < Egress().high_water < Egress().max_bytes
    assert Cache().max_track_bytes < Cache().max_bytes
