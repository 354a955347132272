from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from laps_sdk import tokens
from laps_sdk.cli.token import app


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(item) for item in arguments], input=stdin)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key.json"
    assert run("keygen", path, "--public", tmp_path / "public.json").exit_code == 0
    return path


def test_keygen_mint_show_verify(key: Path) -> None:
    public = key.with_name("public.json")
    token = run(
        "mint", "--key", key, "--scope", "sub:example-a/*", "--iss", "me", "--aud", "us"
    ).stdout.strip()
    shown = run("show", token)
    assert shown.exit_code == 0
    assert "sub:example-a/*" in shown.stdout
    assert "not verified" in shown.stderr
    good = run("verify", "-", "--key", public, "--aud", "us", "--json", stdin=f"{token}\n")
    assert good.exit_code == 0
    assert json.loads(good.stdout)["issuer"] == "me"
    asked = ("verify", token, "--key", public, "--aud", "us", "--action")
    assert run(*asked, "subscribe", "--track", "example-a--x").exit_code == 0
    assert run(*asked, "client_setup").exit_code == 0
    denied = run(*asked, "publish", "--track", "example-a--x")
    assert denied.exit_code == 1
    assert "does not allow publish" in denied.stderr


def test_without_cwt_one_line_says_what_to_install(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tokens, "mint", raising=False)
    monkeypatch.delitem(sys.modules, "laps_sdk.tokens.signing", raising=False)
    monkeypatch.setitem(sys.modules, "cwt", None)
    ended = run("mint", "-k", key, "-s", "all:*")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr == (
        'laps token: this needs cwt: pip install -e "packages/laps-sdk[tokens]"\n'
    )


def test_a_token_that_does_not_hold_ends_with_1(key: Path) -> None:
    token = run("mint", "-k", key, "-s", "all:*", "--expires-in", "0s").stdout.strip()
    other = key.with_name("other.json")
    assert run("keygen", other, "--kid", "key").exit_code == 0
    refused = run("verify", token, "-k", other)
    assert refused.exit_code == 1
    assert refused.stderr == "laps token: the signature does not hold\n"
    late = run("mint", "-k", key, "-s", "all:*", "--not-before", "1h").stdout.strip()
    assert "not valid yet" in run("verify", late, "-k", key).stderr
    assert run("show", "nonsense!").exit_code == 1
    raw = run("show", stdin=b"\xff\xfe")
    assert (raw.exit_code, raw.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("keygen", "{key}"), "exists already"),
        (("keygen", "{dir}/x.json", "--alg", "none"), "algorithm 'none'"),
        (("keygen", "{dir}/x.json", "--alg", "HS256", "--public", "{dir}/y.json"), "no public"),
        (("mint", "-k", "{key}", "-s", "dance:*"), "unknown action"),
        (("mint", "-k", "{key}", "-s", "all:*", "--expires-in", "soon"), "not a duration"),
        (("mint", "-k", "{dir}/none.json", "-s", "all:*"), "cannot be read"),
        (("mint", "-k", "{key}", "-s", "all:*", "--revalidate", "nan"), "not a number"),
        (("mint", "-k", "{key}", "-s", "all:/*"), "everything is '*' alone"),
        (("mint", "-k", "{dir}/public.json", "-s", "all:*"), "no private key"),
    ],
)
def test_wrong_use_ends_with_2_and_one_line(
    key: Path, arguments: tuple[str, ...], words: str
) -> None:
    ended = run(*(item.format(key=key, dir=key.parent) for item in arguments))
    assert ended.exit_code == 2
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (key.parent / "x.json").exists()


def test_texts_of_strangers_cannot_write_to_the_terminal(key: Path) -> None:
    claims = tokens.Claims(
        issuer="\x1b[2J", expires=1e300, not_before=5.5, revalidate=3, token_id=b"x"
    )
    token = tokens.to_text(tokens.mint(claims, tokens.load_private_key(key)))
    shown = run("show", token, "--json")
    facts = json.loads(shown.stdout)
    assert facts["issuer"] == r"'\x1b[2J'"
    assert facts["expires"] == "1e+300"
    assert facts["revalidate_after_s"] == 3
    assert shown.stderr == ""
