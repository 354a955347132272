"""Keys of planners, and files of signed plans."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from laps_analytics.errors import OutputError, PlanError
from laps_wire.plan import (
    Plan,
    PlanFormatError,
    SignedPlan,
    dumps,
    key_id,
    loads,
    signed_bytes,
)

__all__ = [
    "check_signature",
    "make_key",
    "public_pem",
    "read_key",
    "read_plan",
    "sign",
    "write_plan",
]


def make_key(path: Path) -> tuple[Path, str]:
    """Create a key pair; return the file of the public key and the key id.

    Only the owner can read the private file. Raises :class:`OutputError` if it exists.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = public_pem(key)
    beside = path.with_name(f"{path.stem}.pub.pem")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(private)
        beside.write_bytes(public)
    except FileExistsError:
        raise OutputError(f"{path} exists: name another file; a key is never overwritten") from None
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror}; name another file"
        ) from None
    return beside, _id(key.public_key())


def public_pem(key: Ed25519PrivateKey) -> bytes:
    """Return the public key in PEM form, as relays read it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key from a PEM file; raise :class:`PlanError` if it is unusable."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise PlanError(
            f"{path} cannot be read: {error.strerror}; make a key with `laps-analytics plan keygen`"
        ) from None
    except (ValueError, TypeError):
        raise PlanError(
            f"{path} has no private key in PEM form: name a file of `laps-analytics plan keygen`"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise PlanError(f"{path} has no Ed25519 key: make one with `laps-analytics plan keygen`")
    return key


def sign(plan: Plan, key: Ed25519PrivateKey) -> SignedPlan:
    """Sign a plan."""
    return SignedPlan(
        plan=plan, key_id=_id(key.public_key()), signature=key.sign(signed_bytes(plan))
    )


def check_signature(signed: SignedPlan, public: Path) -> None:
    """Raise :class:`PlanError` unless a plan was signed by the key of a file."""
    try:
        key = load_pem_public_key(public.read_bytes())
    except OSError as error:
        raise PlanError(f"{public} cannot be read: {error.strerror}; name another file") from None
    except ValueError:
        raise PlanError(f"{public} has no public key in PEM form: name a .pub.pem file") from None
    if not isinstance(key, Ed25519PublicKey) or _id(key) != signed.key_id:
        raise PlanError(
            f"the plan was signed by {signed.key_id}, not by the key in {public}: name another key"
        )
    try:
        key.verify(signed.signature, signed_bytes(signed.plan))
    except InvalidSignature:
        raise PlanError(
            "the signature is wrong: the plan was changed after signing; get it again"
        ) from None


def read_plan(path: Path) -> SignedPlan:
    """Read a plan from a file, without checking its signature.

    Raises :class:`PlanError` if it cannot be read.
    """
    try:
        return loads(path.read_bytes())
    except OSError as error:
        raise PlanError(
            f"{path} cannot be read: {error.strerror}; name a plan that `laps-analytics plan"
            " --out` wrote"
        ) from None
    except PlanFormatError as error:
        raise PlanError(
            f"{path} is not a plan: {error}; name a plan that `laps-analytics plan --out` wrote"
        ) from None


def write_plan(signed: SignedPlan, path: Path) -> None:
    """Write a plan atomically: a relay may read the file at any time."""
    aside = path.with_name(f".{path.name}.new")
    try:
        aside.write_text(dumps(signed) + "\n", encoding="ascii")
        aside.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror}; name another file"
        ) from None


def _id(key: Ed25519PublicKey) -> str:
    return key_id(key.public_bytes(Encoding.Raw, PublicFormat.Raw))
