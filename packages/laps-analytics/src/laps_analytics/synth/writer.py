"""Write telemetry files as relays do, from dicts in the order of the schema.

The checks of :func:`laps_wire.telemetry.dump_line` are skipped for speed. A test checks that it
would write the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from laps_wire.telemetry.schema import VERSION

__all__ = ["TelemetryFiles"]

_dump: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


class TelemetryFiles:
    """Buffers the events of all relays, and writes a file for each relay on request."""

    def __init__(
        self,
        folder: Path,
        regions: Mapping[str, str],
        *,
        clock_error_us: Mapping[str, int],
        boot: int = 1,
    ) -> None:
        self._folder = folder
        self._regions = regions
        self._error = dict(clock_error_us)
        self._boot = dict.fromkeys(regions, boot)
        self._seq = dict.fromkeys(regions, 0)
        self._number = dict.fromkeys(regions, 0)
        self._held: dict[str, list[tuple[int, str, str | None, dict[str, Any]]]] = {
            relay: [] for relay in regions
        }
        self.lines = 0
        folder.mkdir(parents=True, exist_ok=True)

    def clock(self, relay: str, true_us: int) -> int:
        """Return the time that the clock of a relay shows."""
        return true_us + self._error.get(relay, 0)

    def boot(self, relay: str) -> int:
        """Return the boot epoch of a relay."""
        return self._boot[relay]

    def put(
        self, relay: str, true_us: int, kind: str, body: dict[str, Any], tenant: str | None = None
    ) -> None:
        """Add an event; ``body`` has the order of the schema and no null fields."""
        self._held[relay].append((true_us, kind, tenant, body))

    def restart(self, relay: str) -> None:
        """Restart a relay: increase its boot epoch, and number from one."""
        self.close(relay)
        self._boot[relay] += 1
        self._seq[relay] = 0

    def close(self, relay: str) -> Path | None:
        """Write the file of a relay; return None if it has no events."""
        held = self._held[relay]
        if not held:
            return None
        held.sort(key=lambda item: item[0])
        boot, seq = self._boot[relay], self._seq[relay]
        region, error = self._regions[relay], self._error.get(relay, 0)
        self._number[relay] += 1
        safe = relay.replace(":", "_")
        path = self._folder / f"{safe}-{boot}-{self._number[relay]:06d}.jsonl"
        lines = []
        for true_us, kind, tenant, body in held:
            seq += 1
            event: dict[str, Any] = {
                "v": VERSION,
                "event_id": f"{relay}:{boot}:{seq}",
                "ts_us": true_us + error,
                "relay": relay,
                "boot": boot,
                "type": kind,
            }
            if tenant is not None:
                event["tenant"] = tenant
            event["region"] = region
            event["body"] = body
            lines.append(_dump(event))
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        self.lines += len(lines)
        self._seq[relay] = seq
        held.clear()
        return path

    def close_all(self) -> list[Path]:
        """Write the files of all relays."""
        paths = [self.close(relay) for relay in self._regions]
        return [path for path in paths if path is not None]
