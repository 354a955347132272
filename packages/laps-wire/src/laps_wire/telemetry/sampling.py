"""Which groups are sampled: the same ones at every relay, without a word between them.

A record of one relay says little; the records of all relays on a way say where an object lost its
time. So the choice is a hash of the track and the group. A relay that samples one in 100 samples
all that one does which takes one in 1000.
"""

from __future__ import annotations

from typing import Final

__all__ = ["is_sampled"]

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E37_79B9_7F4A_7C15


def is_sampled(track: int, group_id: int, one_in: int) -> bool:
    """Whether a group of a track (its full-name hash) is among the one in so many; 0: none is.

    The numbers are mixed as splitmix64 does it: neighbours have nothing to do with each other.
    """
    if one_in <= 1:
        return one_in == 1
    value = (track + (group_id + 1) * _STEP) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
    return (value ^ (value >> 31)) * one_in <= _MASK
