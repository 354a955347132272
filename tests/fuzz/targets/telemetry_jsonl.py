"""Telemetry lines: any line is an event, which writes and reads again as itself, or a fault."""

from __future__ import annotations

from laps_wire.telemetry import (
    Body,
    Event,
    HopStat,
    MsHistogram,
    NodeAdv,
    PathItem,
    PolicyApplied,
    TelemetryError,
    UnknownBody,
    dump_line,
    load_line,
)


def one_input(data: bytes) -> None:
    """Read one line."""
    try:
        event = load_line(data)
    except TelemetryError as error:
        if not str(error).isprintable():
            raise AssertionError(f"a fault that does not print: {error!a}") from error
        return
    line = dump_line(event)
    if load_line(line) != event or not line.isascii() or "\n" in line:
        raise AssertionError(f"{line!a} is not {event!a}")


def seeds() -> list[bytes]:
    """A few events."""
    bodies: list[Body] = [
        PolicyApplied(plan_id="p", plan_version=1, outcome="refused", reason="\x1b[2J"),
        NodeAdv(
            node_id="0.1:0.2",
            node_type="via",
            path=(PathItem("0.1:0.3", 20_000),),
            sum_srtt_us=20_000,
            best=True,
            longitude=-122.3,
            extra={"later": [1, None, {"x": 1.5}]},
        ),
        HopStat(
            track="070750223dab53b6",
            window_ms=10_000,
            objects=2,
            in_bytes=10,
            out_bytes=20,
            drops={"ttl": 1},
            queue_ms=MsHistogram.of([0.5, 12.0], (1.0, 10.0)),
        ),
        UnknownBody("moon.phase", {"phase": "\u263d"}),
    ]
    return [
        dump_line(Event.of(body, relay="1.2:3.4", boot=9, seq=seq, ts_us=0)).encode()
        for seq, body in enumerate(bodies)
    ]
