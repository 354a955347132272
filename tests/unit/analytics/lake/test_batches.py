from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from laps_analytics.errors import PlanError
from laps_analytics.lake import frames
from laps_analytics.lake.frames import summed


def test_sums_do_not_wait_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_TOGETHER", 10)

    def parts(count: int) -> Iterator[pa.Table]:
        for at in range(0, count, 4):
            keys = pa.array([f"k{n % 7}" for n in range(at, at + 4)])
            yield pa.table({"key": keys, "n": pa.array(range(at, at + 4))})

    found = summed(parts(60), ("key",), ("n",))
    assert found is not None
    sums = {row["key"]: row["n"] for row in found.to_pylist()}
    assert sums == {f"k{rest}": sum(range(rest, 60, 7)) for rest in range(7)}
    with pytest.raises(PlanError):
        summed(parts(60), ("key",), ("n",), most=6, fault=lambda count: PlanError(str(count)))
    with pytest.raises(PlanError):
        summed(parts(8), ("key",), ("n",), most=6, fault=lambda count: PlanError(str(count)))
    assert summed(iter(()), ("key",), ("n",)) is None
