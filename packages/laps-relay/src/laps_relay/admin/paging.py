"""Pages of tables: which rows an answer holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

from fastapi import HTTPException, Query

__all__ = ["Limit", "Offset", "paged"]

_DEFAULT_ROWS: Final = 100

Row = TypeVar("Row")
Item = TypeVar("Item")

Limit = Annotated[int | None, Query(ge=1, description="How many rows at most.")]
Offset = Annotated[int, Query(ge=0, description="How many rows to leave out first.")]


def paged(
    rows: Sequence[Row],
    limit: int | None,
    offset: int,
    page_limit: int,
    item: Callable[[Row], Item],
) -> dict[str, Any]:
    """Return some rows of a table, as ``views.Page`` has them. Raises 400 for too many."""
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
