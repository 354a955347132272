"""The configuration of a session: values that could not be sent are refused."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import EncodeError
from laps_wire.nodeid import NodeId
from laps_wire.peering.session.dialect import (
    SessionConfig,
)
from laps_wire.peering.session.state import Role
from testkit.peering_pair import node


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"challenge": bytes(31)}, "challenge: 31 bytes where 32 belong"),
        ({"spki_hash": bytes(33)}, "spki_hash: 33 bytes where 32 belong"),
        ({"versions": (2, 1)}, r"versions: \(2, 1\) must strictly ascend"),
        ({"features": (3, 3)}, r"features: \(3, 3\) must strictly ascend"),
        ({"schemes": (1, 0)}, r"schemes: \(1, 0\) must strictly ascend"),
        ({"versions": ()}, "versions: at least one"),
        ({"schemes": ()}, "schemes: at least one"),
        ({"node_info": node(1).passed_on(NodeId(2), 5)}, "an empty path"),
    ],
)
def test_what_could_not_be_sent_is_refused_at_once(changes: dict[str, Any], why: str) -> None:
    values: dict[str, Any] = {
        "role": Role.LISTENER,
        "node_info": node(1),
        "challenge": bytes(32),
        "features": (),
    }
    with pytest.raises(EncodeError, match=why):
        SessionConfig(**{**values, **changes})
