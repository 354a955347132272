"""The package's face: everything that its modules offer, tables and field codecs aside."""

from __future__ import annotations

from typing import get_args

from laps_wire import quicr
from laps_wire.quicr import (
    codepoints,
    control,
    datagram,
    errors,
    fragments,
    manifest,
    reassembly,
    sequence,
)


def test_the_public_names() -> None:
    modules = (
        codepoints,
        control,
        datagram,
        errors,
        fragments,
        manifest,
        reassembly,
        sequence,
    )
    offered = {name for module in modules for name in module.__all__}
    messages = {message.__name__ for message in get_args(control.Message)}
    assert set(quicr.__all__) == offered | messages
    assert len(quicr.__all__) == len(set(quicr.__all__))
    assert all(hasattr(quicr, name) for name in quicr.__all__)
