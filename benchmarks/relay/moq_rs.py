"""moq-rs (Rust, from PyPI) as a relay.

    python -m relay.moq_rs CERTIFICATE KEY

Prints the port it listens on. Everything that a client announces is served to all others.
"""

from __future__ import annotations

import asyncio
import sys


async def main(certificate: str, key: str) -> None:
    """Serve until killed."""
    import moq  # noqa: PLC0415 - not installed where it is not measured

    async with moq.Server("127.0.0.1:0", tls_cert=[certificate], tls_key=[key]) as server:
        print(server.local_addr.rsplit(":", 1)[1], flush=True)
        await server.serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
