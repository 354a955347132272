"""Write the reference page of ``laps`` and ``laps-relay`` from the commands themselves.

Run it after a change of a command; a test says when.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from laps_relay.cli import app as relay_app
from laps_sdk.cli.commands import app as laps_app

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "cli.md"
MARK = "<!-- from the commands: python scripts/cli_page.py -->\n"

SHARED: Final = ("Trust", "Connection")
"""Panels of options that many commands have: told once."""
COMPLETION: Final = ("install_completion", "show_completion")


def markdown() -> str:
    """Everything behind the mark."""
    lines: list[str] = []
    shared: dict[str, Any] = {}
    for app in (laps_app, relay_app):
        root = typer.main.get_command(app)
        lines += commands(str(root.name), root, shared)
    lines += ["## Options of a connection", "", *_options(list(shared.values()))]
    return "\n".join(lines).rstrip() + "\n"


def _children(command: Any) -> dict[str, Any]:
    """The commands of a group, those too that it imports only when they are asked for."""
    if not hasattr(command, "list_commands"):
        return {}
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def commands(path: str, command: Any, shared: dict[str, Any]) -> Iterator[str]:
    """A command, and those below it."""
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    options = [
        item
        for item in command.params
        if item.param_type_name == "option" and item.name not in COMPLETION and not item.hidden
    ]
    common = [item for item in options if getattr(item, "rich_help_panel", None) in SHARED]
    own = [item for item in options if item not in common]
    shared.update((item.name, item) for item in common)
    children = _children(command)
    words = [_argument(item) for item in arguments]
    usage = " ".join([path, *(["COMMAND"] if children else words), "[OPTIONS]"])
    yield from (f"{'##' if ' ' not in path else '###'} `{path}`", "", f"`{usage}`", "")
    yield from (_prose(command.help or ""), "")
    if children:
        yield from (f"- `{path} {name}`: {_first(child)}" for name, child in children.items())
        yield ""
    if arguments:
        yield from ("| argument | default | meaning |", "| --- | --- | --- |")
        yield from (
            f"| `{_bare(item)}` | {_default(item)} | {_cell(item.help)} |" for item in arguments
        )
        yield ""
    yield from _options(own)
    if common:
        yield from ("And the [options of a connection](#options-of-a-connection).", "")
    for name, child in children.items():
        yield from commands(f"{path} {name}", child, shared)


def _options(options: list[Any]) -> Iterator[str]:
    if not options:
        return
    yield from ("| option | default | environment | meaning |", "| --- | --- | --- | --- |")
    for item in options:
        names = ", ".join(f"`{name}`" for name in (*item.opts, *item.secondary_opts))
        if not item.is_flag:
            names += f" {_bare(item)}"
        variable = f"`{item.envvar}`" if item.envvar else ""
        default = "required" if item.required else _default(item)
        yield f"| {names} | {default} | {variable} | {_cell(item.help)} |"
    yield ""


def _bare(item: Any) -> str:
    return str(item.metavar or item.name.upper())


def _argument(item: Any) -> str:
    return _bare(item) if item.required else f"[{_bare(item)}]"


def _default(item: Any) -> str:
    value = item.default
    if value is None or value is False or value in ("", [], ()):
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _prose(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _first(command: Any) -> str:
    return _prose(command.help or "").split("\n\n")[0]


def main() -> None:
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{words}{MARK}\n{markdown()}", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
