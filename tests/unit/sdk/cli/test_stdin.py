from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.cli.stdin import Stdin, chunks, lines
from testkit.moqt_server import eventually


async def pieces_of(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def lines_of(pieces: list[bytes]) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [line async for line in lines(pieces_of(pieces))]

    return asyncio.run(collect())


def test_lines_are_cut_anywhere() -> None:
    assert lines_of([b"a", b"b\nc", b"\n", b"\n\nd\r\n", b"e\r", b"\nlast"]) == [
        b"ab", b"c", b"", b"", b"d", b"e", b"last",
    ]  # fmt: skip
    assert lines_of([]) == []
    assert lines_of([b"\n"]) == [b""]


@given(st.lists(st.binary(max_size=12)), st.integers(1, 7))
def test_chunks_have_their_size_and_lose_nothing(pieces: list[bytes], size: int) -> None:
    async def collect() -> list[bytes]:
        return [chunk async for chunk in chunks(pieces_of(pieces), size)]

    found = asyncio.run(collect())
    assert b"".join(found) == b"".join(pieces)
    assert all(len(chunk) == size for chunk in found[:-1])
    assert all(0 < len(chunk) <= size for chunk in found)


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b""])))
def test_lines_are_those_of_the_whole(pieces: list[bytes]) -> None:
    whole = b"".join(pieces).split(b"\n")
    assert lines_of(pieces) == (whole if whole[-1] else whole[:-1])


def stdin_of(monkeypatch: pytest.MonkeyPatch, buffer: object) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=buffer))


async def everything() -> bytes:
    return b"".join([piece async for piece in Stdin()])


def test_a_pipe_and_a_file_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, b"abc")
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        stdin_of(monkeypatch, pipe)
        assert asyncio.run(everything()) == b"abc"
    stdin_of(monkeypatch, io.BytesIO(b"x" * 70_000))
    assert len(asyncio.run(everything())) == 70_000


def test_what_cannot_be_read_is_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    stdin_of(monkeypatch, Broken())
    with pytest.raises(OSError, match="Input/output"):
        asyncio.run(everything())


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "laps stdin"]


@pytest.mark.parametrize("loop_lives", [True, False])
def test_nobody_waits_for_a_reader_that_waits(
    monkeypatch: pytest.MonkeyPatch, loop_lives: bool
) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        stdin_of(monkeypatch, pipe)

        async def main() -> None:
            task = asyncio.create_task(everything())
            await eventually(lambda: bool(readers()))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if loop_lives:
                await finish()

        async def finish() -> None:
            os.write(write, b"too late")
            await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in readers()))

        asyncio.run(main())  # ends, though nothing came
        if not loop_lives:
            assert len(readers()) == 1
            os.write(write, b"too late")
            for thread in readers():
                thread.join()
        os.close(write)
