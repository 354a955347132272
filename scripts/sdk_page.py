"""Write the reference page of ``laps_sdk`` from its public names and their docstrings.

Run it after a change of either; ``tests/docs/test_reference.py`` says when.
"""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

import laps_sdk
import laps_sdk.testing

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "sdk-api.md"

INTRO = """\
# laps_sdk

<!-- from the docstrings: python scripts/sdk_page.py -->

Everything below is a public name of `laps_sdk`; what is not here may change without notice. All
of it is typed. How the parts play together is in [your first track](../tutorials/first-track.md).
"""
SECTIONS = {
    "Begin": ("connect", "Session"),
    "Publish": ("PublishedTrack", "Group"),
    "Subscribe and fetch": ("Subscription", "Fetch", "Object", "Gap", "GapCause"),
    "Report": ("Reporter",),
    "Look around": (
        "Namespaces",
        "NamespaceAdded",
        "NamespaceRemoved",
        "Tracks",
        "TrackAdded",
        "TrackRemoved",
        "TrackStatus",
    ),
}
"""The order of the page; errors and all other names follow."""


SHOWN = {
    "Fetch": ("close",),
    "Group": ("write", "write_now", "end", "abandon"),
    "MemoryRelay": ("connect",),
    "Namespaces": (),
    "PublishedTrack": ("subscribed", "write", "group", "subgroup", "end"),
    "SessionClosedError": (),
    "Subscription": ("close",),
    "Tracks": (),
}
"""Methods for applications; by the others the parts of the client work with each other."""


def page() -> str:
    told = {name for names in SECTIONS.values() for name in names}
    others = [name for name in sorted(laps_sdk.__all__, key=str.lower) if name not in told]
    errors = [name for name in others if name.endswith("Error")]
    values = [name for name in others if name not in errors]
    sections = {**SECTIONS, "Errors": tuple(errors), "Values": tuple(values)}
    parts = [INTRO]
    for title, names in sections.items():
        parts.append(f"## {title}\n")
        parts.extend(entry(laps_sdk, name, "laps_sdk") for name in names)
    parts.append("## laps_sdk.testing\n")
    parts.append(paragraphs(laps_sdk.testing.__doc__) + "\n")
    testing = laps_sdk.testing
    parts.extend(entry(testing, name, "laps_sdk.testing") for name in testing.__all__)
    return "\n".join(parts)


def entry(module: ModuleType, name: str, where: str) -> str:
    value = getattr(module, name)
    if isinstance(value, type):
        return class_entry(value, name, where)
    if callable(value):
        return callable_entry(value, name, where)
    return f"### `{where}.{name}`\n\n`{value!r}`\n"


def callable_entry(value: Any, name: str, where: str) -> str:
    shown = inspect.unwrap(value)
    return f"### `{where}.{name}`\n\n{code(name, shown)}\n\n{paragraphs(value.__doc__)}\n"


def class_entry(kind: type, name: str, where: str) -> str:
    bases = [base.__name__ for base in kind.__bases__ if base is not object]
    parts = [f"### `{where}.{name}`\n"]
    if issubclass(kind, BaseException):
        parts.append(f"Bases: {', '.join(f'`{base}`' for base in bases)}.\n")
    parts.append(paragraphs(kind.__doc__) + "\n")
    if issubclass(kind, enum.Enum):
        parts.append("".join(f"- `{member.name}`\n" for member in kind))
        return "\n".join(parts)
    rows = attribute_rows(kind)
    if rows:
        parts.append("| attribute | meaning |\n| --- | --- |\n" + "".join(rows))
    for title, member in own_methods(kind):
        parts.append(f"{code(title, member)}\n\n{paragraphs(member.__doc__)}\n")
    return "\n".join(parts)


def internal(doc: str | None) -> bool:
    return doc is None or doc.startswith(("Internal", "See "))


def own_methods(kind: type) -> list[tuple[str, FunctionType]]:
    found = []
    # What a class has from one that is not on the page is its own to a reader.
    hidden = [
        base
        for base in kind.__mro__
        if base is kind
        or (base.__module__.startswith("laps_sdk.") and not hasattr(laps_sdk, base.__name__))
    ]
    members = {name: member for base in reversed(hidden) for name, member in vars(base).items()}
    for name, member in members.items():
        function = member.__func__ if isinstance(member, classmethod) else member
        if name.startswith("_") or not isinstance(function, FunctionType):
            continue
        if not internal(function.__doc__) and name in SHOWN.get(kind.__name__, (name,)):
            found.append((name, function))
    return found


def attribute_rows(kind: type) -> list[str]:
    """Fields and properties with a docstring, in the order of the source."""
    rows = []
    for name, words in attributes(kind):
        if not name.startswith("_") and not internal(words):
            rows.append(f"| `{name}` | {' '.join(paragraphs(words).split())} |\n")
    return rows


def attributes(kind: type) -> list[tuple[str, str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = cast("ast.ClassDef", tree.body[0])
    fields = list(documented(body.body))
    for node in body.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == "__init__":
            fields.extend(documented(node.body))
        elif any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list):
            fields.append((node.name, ast.get_docstring(node) or ""))
    return [(name, words) for name, words in fields if words]


def documented(body: list[ast.stmt]) -> list[tuple[str, str]]:
    """Assignments with a string behind them; fields of a class also without."""
    found = []
    for node, behind in zip(body, [*body[1:], None], strict=True):
        target: ast.expr | None = None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
        name = getattr(target, "id", None) or getattr(target, "attr", None)
        if name is None:
            continue
        words = ""
        if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            words = str(behind.value.value)
        elif isinstance(target, ast.Name) and isinstance(node, ast.AnnAssign):
            words = f"`{ast.unparse(node.annotation)}`".replace("|", "\\|")
        found.append((name, words))
    return found


def code(name: str, function: Any) -> str:
    """A call with its parameters, one a line if there are many."""
    source = ast.parse(textwrap.dedent(inspect.getsource(function)))
    node = cast("ast.FunctionDef | ast.AsyncFunctionDef", source.body[0])
    arguments = node.args
    arguments.args = [a for a in arguments.args if a.arg not in ("self", "cls")]
    words = ast.unparse(arguments)
    answer = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    one_line = f"{kind}{name}({words}){answer}"
    if len(one_line) > 100:
        each = ",\n    ".join(split_arguments(words))
        one_line = f"{kind}{name}(\n    {each},\n){answer}"
    return f"```text\n{one_line}\n```"


def split_arguments(words: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(words):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(words[start:index].strip())
            start = index + 1
    return [*parts, words[start:].strip()]


def paragraphs(doc: str | None) -> str:
    """A docstring as Markdown: roles and double backticks become code, drawings stay drawings."""
    text = inspect.cleandoc(doc or "")
    for role in (":meth:", ":class:", ":func:", ":mod:", ":data:"):
        text = text.replace(role, "")
    text = text.replace("``", "`")
    lines: list[str] = []
    drawing = False
    for line in text.splitlines():
        if line.rstrip().endswith("::") and not drawing:
            drawing = True
            lines += [line.rstrip().removesuffix("::").rstrip(), "", "```text"]
        elif drawing and line and not line.startswith(" "):
            while lines[-1] == "":
                lines.pop()
            drawing = False
            lines += ["```", "", line]
        elif not (drawing and lines[-1] == "```text" and not line):
            lines.append(line)
    if drawing:
        lines.append("```")
    return "\n".join(lines).strip()


def main() -> None:
    PAGE.write_text(page().rstrip() + "\n", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
