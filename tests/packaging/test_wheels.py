"""The four distributions as a user gets them: built, installed into nothing, imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ["laps-analytics", "laps-relay", "laps-sdk", "laps-wire"]


def project(name: str) -> dict[str, object]:
    text = (ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, object] = tomllib.loads(text)["project"]
    return table


def uv(*arguments: str | Path) -> None:
    """Build or install as pip would, in a tenth of the time; nothing from this checkout helps."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT.parent, env=outside, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four, each built from its own source distribution."""
    place = tmp_path_factory.mktemp("dist")
    for name in NAMES:
        uv("build", "--python", sys.executable, "--out-dir", place, ROOT / "packages" / name)
    return place


def install(place: Path, *arguments: str | Path) -> Path:
    """The interpreter of a new environment with nothing but this in it."""
    uv("venv", "--python", sys.executable, place)
    python = place / "bin" / "python"
    uv("pip", "install", "--python", python, "--find-links", *arguments)
    return python


@pytest.fixture(scope="module")
def python(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four, with what they depend on."""
    return install(tmp_path_factory.mktemp("all"), wheels, *NAMES)


@pytest.fixture(scope="module")
def bare_python(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """laps-wire alone, from no index: it may depend on nothing."""
    return install(tmp_path_factory.mktemp("bare"), wheels, "--no-index", "laps-wire")


@pytest.fixture(scope="module")
def client_python(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """laps-sdk without extras, as an application that publishes or subscribes installs it."""
    return install(tmp_path_factory.mktemp("client"), wheels, "laps-sdk")


def test_one_version_for_all() -> None:
    assert len({str(project(name)["version"]) for name in NAMES}) == 1


def test_members_depend_on_each_other_by_compatible_version() -> None:
    version = str(project("laps-wire")["version"])
    for name in NAMES:
        for dependency in project(name)["dependencies"]:  # type: ignore[attr-defined]
            if dependency.startswith("laps-"):
                assert dependency.endswith(f"~= {version}")


def test_the_licence_is_the_same_everywhere() -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    for name in NAMES:
        assert (ROOT / "packages" / name / "LICENSE").read_bytes() == licence


def test_wheels_hold_types_and_licence(wheels: Path) -> None:
    built = sorted(wheels.glob("*.whl"))
    assert [wheel.name.split("-")[0] for wheel in built] == [n.replace("-", "_") for n in NAMES]
    for wheel in built:
        inside = zipfile.ZipFile(wheel).namelist()
        package = wheel.name.split("-")[0]
        assert f"{package}/py.typed" in inside
        assert any(name.endswith("licenses/LICENSE") for name in inside)
        assert not [name for name in inside if "test" in Path(name).parts]


def test_they_install_and_import(python: Path) -> None:
    # -I: nothing from this checkout may help.
    for name in NAMES:
        package = name.replace("-", "_")
        code = f"import {package}, importlib.metadata as m; print(m.version('{name}'))"
        ended = subprocess.run(
            [python, "-I", "-Werror", "-c", code], capture_output=True, check=True
        )
        assert ended.stdout.decode().strip() == project(name)["version"]


@pytest.mark.parametrize("command", ["laps", "laps-relay"])
def test_the_commands_start(python: Path, command: str) -> None:
    ended = subprocess.run([python.parent / command, "--help"], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"Usage" in ended.stdout


def test_the_wire_needs_nothing_else(bare_python: Path) -> None:
    command = [str(bare_python), "-I", "-m", "laps_wire", "decode", "--help"]
    assert b"usage" in subprocess.run(command, capture_output=True, check=True).stdout
    assert project("laps-wire")["dependencies"] == []


def test_the_sdk_without_extras_is_light(client_python: Path) -> None:
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    command = [str(client_python), "-I", "-c", code]
    installed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split()
    assert {"laps-sdk", "laps-wire", "aioquic", "cryptography"} <= set(installed)
    assert not {"cwt", "pydantic", "rich", "typer"} & set(installed)
    assert len(installed) <= 16, installed


def test_the_sdk_without_extras_imports(client_python: Path) -> None:
    code = (
        "import laps_sdk, laps_sdk.client, laps_sdk.cli, laps_sdk.testing, laps_sdk.tokens\n"
        "[getattr(laps_sdk, name) for name in laps_sdk.__all__]"
    )
    subprocess.run([client_python, "-I", "-Werror", "-c", code], check=True)


def test_the_command_without_its_extra_says_what_to_install(client_python: Path) -> None:
    ended = subprocess.run(
        [client_python.parent / "laps", "--help"], capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, b"")
    [line] = ended.stderr.decode().splitlines()
    assert line.endswith('pip install -e "packages/laps-sdk[cli]"')
