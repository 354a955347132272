"""Tables in parts: how much of one an answer holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, TypeVar, overload

from fastapi import HTTPException, Query

__all__ = ["LazyRows", "Limit", "Offset", "paged"]

_DEFAULT_ROWS: Final = 100

Row = TypeVar("Row")
Item = TypeVar("Item")

Limit = Annotated[int | None, Query(ge=1, description="How many rows at most.")]
Offset = Annotated[int, Query(ge=0, description="How many rows to leave out first.")]


class LazyRows(Sequence[Row]):
    """A table whose rows are made when they are asked for, and only those.

    A million rows take seconds to make; a relay that stands still that long loses its peers.
    """

    __slots__ = ("_rows", "_size")

    def __init__(self, size: int, rows: Callable[[slice], Sequence[Row]]) -> None:
        """``rows``: those of a slice that has a start, and no step."""
        self._size = size
        self._rows = rows

    def __len__(self) -> int:
        """How many there are."""
        return self._size

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """One row, or some."""
        if isinstance(index, int):
            at = range(self._size)[index]
            return self._rows(slice(at, at + 1))[0]
        start, stop, step = index.indices(self._size)
        if step != 1:
            return [self[at] for at in range(start, stop, step)]
        return self._rows(slice(start, max(start, stop)))

    def __iter__(self) -> Iterator[Row]:
        """All, made at once."""
        return iter(self._rows(slice(0, self._size)))


def paged(
    rows: Sequence[Row],
    limit: int | None,
    offset: int,
    page_limit: int,
    item: Callable[[Row], Item],
) -> dict[str, Any]:
    """Some rows of a table, as ``views.Page`` has them."""
    wanted = min(_DEFAULT_ROWS, page_limit) if limit is None else limit
    if wanted > page_limit:
        raise HTTPException(400, f"limit is {wanted}, at most {page_limit} rows are given")
    chosen = rows[offset : offset + wanted]
    return {
        "total": len(rows),
        "offset": offset,
        "limit": wanted,
        "items": [item(row) for row in chosen],
    }
