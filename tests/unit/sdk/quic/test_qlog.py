from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laps_sdk.quic.library import LibraryEngine
from laps_sdk.quic.qlog import QlogError, QlogWriter
from testkit.engines import Link, make_engine


class Recorded:
    """A trace with nothing in it."""

    def __init__(self, is_client: bool, odcid: bytes) -> None:
        self._role = "client" if is_client else "server"
        self._odcid = odcid

    def to_dict(self) -> dict[str, Any]:
        return {
            "common_fields": {"ODCID": self._odcid.hex()},
            "events": [],
            "vantage_point": {"type": self._role},
        }


def test_all_none_or_a_share_of_connections(tmp_path: Path) -> None:
    ids = [number.to_bytes(8) for number in range(1000)]
    chosen = {
        share: sum(QlogWriter(str(tmp_path), share, Recorded).sampled(each) for each in ids)
        for share in (0.0, 0.25, 1.0)
    }
    assert chosen[0.0] == 0
    assert 200 < chosen[0.25] < 300
    assert chosen[1.0] == 1000


def test_both_ends_choose_the_same_connections(tmp_path: Path) -> None:
    one, other = (QlogWriter(str(tmp_path), 0.5, Recorded) for _ in range(2))
    ids = [number.to_bytes(8) for number in range(64)]
    for odcid in ids:
        left, right = one.start_trace(True, odcid), other.start_trace(False, odcid)
        assert (left is None) == (right is None)


def test_a_trace_is_written_when_it_ends(tmp_path: Path) -> None:
    writer = QlogWriter(str(tmp_path / "new" / "dir"), 1.0, Recorded)
    trace = writer.start_trace(True, b"\x01\x02")
    assert trace is not None
    assert list((tmp_path / "new" / "dir").iterdir()) == []
    writer.end_trace(trace)
    content = json.loads((tmp_path / "new" / "dir" / "0102_client.qlog").read_text())
    assert content["qlog_version"] == "0.3"
    assert len(content["traces"]) == 1
    assert (writer.written, writer.failed) == (1, 0)


def test_a_directory_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(QlogError, match=r"^qlog directory .*file: cannot be written to"):
        QlogWriter(str(blocked), 1.0, Recorded)
    with pytest.raises(QlogError, match="cannot be written to"):
        make_engine("aioquic", server=False, qlog_dir=str(blocked / "below"))


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_is_between_0_and_1(tmp_path: Path, share: float) -> None:
    with pytest.raises(QlogError, match="a share from 0 to 1"):
        QlogWriter(str(tmp_path), share, Recorded)


def test_a_file_that_cannot_be_written_later_is_counted(tmp_path: Path) -> None:
    writer = QlogWriter(str(tmp_path / "dir"), 1.0, Recorded)
    trace = writer.start_trace(False, b"\x01")
    assert trace is not None
    (tmp_path / "dir").rmdir()
    writer.end_trace(trace)
    assert (writer.written, writer.failed) == (0, 1)
    assert writer.last_error.startswith("qlog file 01_server.qlog: ")


@pytest.mark.parametrize("backend", ["aioquic", "aioquic-stock", "qh3"])
@pytest.mark.parametrize("by_client", [True, False])
def test_both_ends_of_a_connection_leave_a_file(
    tmp_path: Path, backend: str, by_client: bool
) -> None:
    engines = [
        make_engine(backend, server=server, qlog_dir=str(tmp_path)) for server in (False, True)
    ]
    link = Link(*engines)
    link.run(lambda: link.client.connected and link.server.connected)
    stream_id = link.client.quic.open_stream(True)
    link.client.quic.write(stream_id, bytes(3000), True)
    link.run(lambda: link.server.finished(stream_id))
    assert list(tmp_path.iterdir()) == []
    (link.client if by_client else link.server).quic.close(0, "")
    link.run(lambda: link.client.closed and link.server.closed)
    # Written with the close, not after the draining period: the endpoint may not last so long.
    written = sorted(tmp_path.iterdir())
    assert [name.name.split("_")[1] for name in written] == ["client.qlog", "server.qlog"]
    for name in written:
        trace = json.loads(name.read_text())["traces"][0]
        kinds = {event["name"] for event in trace["events"]}
        assert {"transport:packet_sent", "transport:packet_received"} <= kinds
    link.run(lambda: link.client.quic.terminated and link.server.quic.terminated)
    for engine in engines:
        assert isinstance(engine, LibraryEngine)
        assert engine.qlog is not None
        assert (engine.qlog.written, engine.qlog.failed) == (1, 0)
