"""Relays of the configuration that cannot be had: said once for each reason, with what to do.

They are dialled again and again. A log with a line for each attempt is not read, and one without
any line leaves the operator alone; so the first failure is a warning, and each other reason.
"""

from __future__ import annotations

from typing import Final

from laps_wire.peering.errors import CloseCode

__all__ = ["Refusals", "advice"]

_MOST: Final = 256
"""Contacts to remember; who redirects us makes new ones."""

_ADVICE: Final = {
    CloseCode.NOT_AUTHORIZED: "compare network.key_file of both relays, or their certificates",
    CloseCode.HASH_MISMATCH: "give both relays the same network.key_file",
    CloseCode.NODE_ID_CONFLICT: "give one of the two relays another network.node_id",
    CloseCode.STALE_EPOCH: (
        "stop one of the two relays that have this key and node id; or, if there is only one,"
        " its clock went back and its state directory was lost: set the clock"
    ),
    CloseCode.MODE_REFUSED: "compare network.type of both relays",
    CloseCode.POLICY: "ask 'laps-relay policy explain' there",
}


def advice(code: int | None, reason: str) -> str:
    """What an operator can do about it; empty if nothing is known that helps."""
    if code in _ADVICE:
        return _ADVICE[CloseCode(code)]
    if "no protocol in common" in reason:
        return "name the port for peers of a relay (--peer-port there), not that for clients"
    if code is None:
        return "see that a relay listens for peers there, and that its packets come through"
    return ""


class Refusals:
    """What is known to be wrong, by contact."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def news(self, contact: str, reason: str) -> bool:
        """Whether this was not said of the contact yet."""
        if self._reasons.get(contact) == reason:
            return False
        if len(self._reasons) >= _MOST:
            self._reasons.clear()
        self._reasons[contact] = reason
        return True

    def reached(self, contact: str) -> None:
        """There is a session with the contact: the next failure is news again."""
        self._reasons.pop(contact, None)
