"""HTTP clients for tests: made in no time, because none of them reads the system's authorities."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

__all__ = ["http_client"]

_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def http_client(base_url: str, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=base_url, verify=_NO_AUTHORITIES, timeout=30.0, trust_env=False, **options
    )
