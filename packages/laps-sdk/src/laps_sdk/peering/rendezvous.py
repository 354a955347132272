"""Numbers whose bits are spread: for choices by rendezvous, which all relays make alike.

The function is the finaliser of SplitMix64. docs/spec/laps-2.md has it: two relays must choose the
same control servers.
"""

from __future__ import annotations

from typing import Final

__all__ = ["mixed"]

_M64: Final = 0xFFFF_FFFF_FFFF_FFFF


def mixed(value: int) -> int:
    """Spread the bits of a number over 64 bits."""
    value &= _M64
    value = (value ^ value >> 30) * 0xBF58_476D_1CE4_E5B9 & _M64
    value = (value ^ value >> 27) * 0x94D0_49BB_1331_11EB & _M64
    return value ^ value >> 31
