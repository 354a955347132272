"""The 1-RTT fast path of the aioquic backend: a ``QuicConnection`` at a third of its cost.

::

    from laps_sdk.quic.aioquic import fast_path as fast
    kind = fast.FastQuicConnection if fast.available else QuicConnection

:class:`FastQuicConnection` has the constructor and the methods of aioquic's class and keeps all
state where that class keeps it. Once a handshake is confirmed, common packets take shorter ways:
up to 64 built at once, header protection of all of them in one call, no cost for streams that have
nothing to do. Anything unusual is handled by the parent's code, packet by packet; see
:mod:`laps_sdk.quic.aioquic.fast` for what is taken over and why each part is safe.

``available`` is False, and ``why_not`` says why, if this aioquic does not look as expected
(:mod:`laps_sdk.quic.aioquic.fast.selfcheck`, run here) or if ``LAPS_FAST_PATH=0`` is set.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aioquic.quic.connection import QuicConnection

__all__ = ["SWITCH", "FastQuicConnection", "available", "why_not"]

SWITCH = "LAPS_FAST_PATH"
"""The environment variable that switches the fast path off if it is "0"."""

if TYPE_CHECKING:
    from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection

    why_not: str
else:
    try:
        from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
        from laps_sdk.quic.aioquic.fast.selfcheck import fault
    except (ImportError, AttributeError, TypeError) as error:
        # Another aioquic, without something that the modules are made of.
        FastQuicConnection = QuicConnection
        why_not = f"this aioquic lacks something: {error}"
    else:
        off = os.environ.get(SWITCH) == "0"
        why_not = f"switched off by {SWITCH}=0" if off else fault()

available: bool = not why_not
"""Whether :class:`FastQuicConnection` may be used."""
