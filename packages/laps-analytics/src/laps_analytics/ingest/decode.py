"""Read files block by block: plain or compressed, complete or not.

A truncated or damaged file yields everything before the fault, and then a reason. Spark would fail
the whole job, so files are decoded before Spark reads them.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import zstandard

from laps_analytics.errors import InputError

__all__ = ["Decoded", "is_plain"]

_BLOCK: Final = 1 << 20

_MAGIC: Final[dict[bytes, tuple[str, Callable[[], Any]]]] = {
    # 31: with the header and the checksum of gzip.
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(31)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda: zstandard.ZstdDecompressor().decompressobj()),
}
"""First bytes of a file to its compression. File names are less reliable."""


def _codec(head: bytes) -> tuple[str, Callable[[], Any]] | None:
    return next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)


def is_plain(path: Path) -> bool:
    """Return whether a file is not compressed."""
    with _opened(path) as file:
        return _codec(file.read(4)) is None


class Decoded:
    """The bytes of a file as blocks.

    After the last one ``fault`` has the reason of an early end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        with _opened(self.path) as file:
            codec = _codec(file.read(4))
            file.seek(0)
            if codec is None:
                while block := file.read(_BLOCK):
                    yield block
            else:
                yield from self._unpacked(file, *codec)

    def _unpacked(self, file: IO[bytes], name: str, new: Callable[[], Any]) -> Iterator[bytes]:
        unpacker, begun = new(), False
        while block := file.read(_BLOCK):
            while block:
                try:
                    plain = unpacker.decompress(block)
                except (zlib.error, OSError, EOFError, zstandard.ZstdError) as error:
                    self.fault = f"damaged {name}: {str(error).strip()}"
                    return
                begun = True
                if plain:
                    yield plain
                if not unpacker.eof:
                    break
                # Files that were joined, as log rotation does, go on with another header.
                block, unpacker, begun = unpacker.unused_data, new(), False
        if begun:
            self.fault = f"the {name} file is cut off"


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
