"""How a relay's cost grows: CPU for each object against subscribers and tracks, memory at rest.

    python -m relay.growth                     tables
    python -m relay.growth --png growth.png    and a picture
    python -m relay.growth --json growth.json

Subscribers are real connections to a relay process, as in ``relay.run``. Tracks are counted in the
planes themselves, without a network: 10,000 of them, each with its own publisher alias and one
subscriber, of which one after the other gets an object. Memory is what the relay process grows by
while clients connect, and while they subscribe, divided by their number.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sink import Sink

from laps_sdk.forwarding.interfaces import EgressEntry, Subscription
from laps_sdk.forwarding.plane import Plane
from laps_wire.moqt.data import SubgroupHeader, SubgroupWriter
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from relay.run import Shape, make_certificate, measure, show

SUBSCRIBERS = (1, 3, 10, 30, 100, 300, 1000)
TRACKS = (1, 10, 100, 1000, 10_000)
OBJECTS = 20_000


def by_subscribers(name: str, files: tuple[str, str], seconds: float) -> list[dict[str, Any]]:
    """CPU for each delivered object; about 1500 deliveries a second, at most 100 objects."""
    rows = []
    for count in SUBSCRIBERS:
        rate = min(100.0, max(2.0, 1500 / count))
        result = measure(name, Shape(subscribers=count, per_group=10), rate, seconds, files)
        show(result)
        rows.append(
            {
                "subscribers": count,
                "us_per_object": result.us_per_object,
                "share": result.share,
                "rss_per_session": (result.rss_loaded - result.rss_idle) / (count + 1),
            }
        )
    return rows


def by_tracks() -> list[dict[str, Any]]:
    """CPU in the forwarding plane for one object, with so many tracks in its tables."""
    rows = []
    for count in TRACKS:
        plane = Plane()
        plane.add_session(1, Draft.D16, Sink())
        plane.add_session(2, Draft.D16, Sink())
        for track in range(count):
            plane.add_track(track, FullTrackName(Namespace((b"bench",)), b"%d" % track))
            plane.add_ingress(0.0, 1, track, track, 128)
            plane.add_egress(0.0, Subscription(2, track), EgressEntry(track=track, alias=track))
        payload = bytes(1200)
        made = []
        for number in range(OBJECTS):
            writer = SubgroupWriter(
                SubgroupHeader(number % count, number // count, 0, 128), Draft.D16
            )
            made.append(writer.start + writer.object(0, payload))
        gc.collect()
        began = time.process_time()
        for number, data in enumerate(made):
            now = 1.0 + number / 1000
            plane.stream_opened(now, 1, number * 4 + 2, StreamKind.SUBGROUP, data, True)
        spent = time.process_time() - began
        rows.append({"tracks": count, "us_per_object": spent / OBJECTS * 1e6})
        print(f"{count:6} tracks  {spent / OBJECTS * 1e6:7.1f} us an object", flush=True)
    return rows


def draw(found: dict[str, Any], path: str) -> None:
    """Both growths in one picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - optional
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(10, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name, rows in found["subscribers"].items():
        left.plot(
            [row["subscribers"] for row in rows],
            [row["us_per_object"] for row in rows],
            marker="o",
            label=name,
        )
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("subscribers of one track")
    left.set_ylabel("relay CPU for a delivered object, us")
    left.legend()
    right.plot(
        [row["tracks"] for row in found["tracks"]],
        [row["us_per_object"] for row in found["tracks"]],
        marker="o",
        color="#205080",
    )
    right.set_xscale("log")
    right.set_ylim(bottom=0)
    right.set_xlabel("tracks in the tables")
    right.set_ylabel("forwarding plane CPU for an object, us")
    for axes in (left, right):
        axes.grid(visible=True, which="both", alpha=0.25)
    figure.savefig(path)


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--relays", nargs="+", default=["ours", "ours-qh3"])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--png", metavar="FILE")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"subscribers": {}, "tracks": by_tracks()}
    with tempfile.TemporaryDirectory() as folder:
        files = make_certificate(folder)
        for name in arguments.relays:
            rows = by_subscribers(name, files, arguments.seconds)
            found["subscribers"][name] = rows
            print(f"{name}: {rows[-1]['rss_per_session'] / 1024:.0f} KiB for each session")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    if arguments.png:
        draw(found, arguments.png)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
