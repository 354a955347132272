"""The package hands out what its modules make, each name once."""

from __future__ import annotations

from laps_wire.peering import cpp
from laps_wire.peering.cpp import codepoints, data_header, fields, framing, messages


def test_every_name_is_there_and_comes_from_a_module() -> None:
    modules = (codepoints, data_header, fields, framing, messages)
    offered = {name: getattr(module, name) for module in modules for name in module.__all__}
    assert len(cpp.__all__) == len(set(cpp.__all__))
    for name in cpp.__all__:
        assert getattr(cpp, name) is offered[name]


def test_every_message_and_header_is_handed_out() -> None:
    wanted = {layout.cls.__name__ for layout in messages.LAYOUTS.values()}
    wanted |= {"NodeInfo", "NodePathItem", "SubscribeInfo", "AnnounceInfo", "UnknownMessage"}
    wanted |= {"StreamHeader", "DatagramHeader", "MessageStream", "Build"}
    assert wanted <= set(cpp.__all__)
