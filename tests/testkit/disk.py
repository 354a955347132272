"""A disk that takes nothing more, for the process that asks."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["full_disk"]


@contextmanager
def full_disk(limit: int = 0) -> Generator[None]:
    """Files of this process cannot grow beyond ``limit`` bytes; writes fail with EFBIG.

    Python ignores the signal that comes with it. Pipes and sockets are not concerned.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
