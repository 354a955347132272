"""Signed plans for tests of relays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry, SignedPlan, dumps, key_id, signed_bytes

__all__ = ["Signer", "a_plan", "an_entry"]

HOUR_US = 3_600_000_000


class Signer:
    """A key that signs plans."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        self.public = self.key.public_key()
        self.id = key_id(self.public.public_bytes(Encoding.Raw, PublicFormat.Raw))

    def file(self, folder: Path) -> Path:
        """The public key, as relays read it."""
        path = folder / "plan-key.pem"
        path.write_bytes(self.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        return path

    def sign(self, plan: Plan) -> bytes:
        """The text of a signed plan."""
        signature = self.key.sign(signed_bytes(plan))
        return dumps(SignedPlan(plan=plan, key_id=self.id, signature=signature)).encode()


def an_entry(
    origin: NodeId,
    via: NodeId,
    *,
    region: str = "eu",
    tracks: tuple[int, ...] | None = None,
    fallback: NodeId | None = None,
) -> PlanEntry:
    """An entry for tracks without a class."""
    return PlanEntry(
        origin=origin, region=region, scope="", tracks=tracks, via=via, fallback=fallback
    )


def a_plan(
    entries: Iterable[PlanEntry],
    *,
    now_us: int,
    version: int = 1,
    name: str = "world",
    lifetime_us: int = HOUR_US,
) -> Plan:
    """A plan that begins now."""
    return Plan(
        id=name,
        version=version,
        made_us=now_us,
        expires_us=now_us + lifetime_us,
        based_on="00" * 32,
        entries=tuple(entries),
    )
