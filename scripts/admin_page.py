"""Write the reference page of the admin API from what the relay itself says about it (OpenAPI).

Run it after a change of a route or a row; ``tests/docs/test_reference.py`` says when.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from laps_relay.admin.app import make_app
from laps_relay.admin.views import RelayView

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "admin-api.md"

INTRO = """\
# Admin API

<!-- from the OpenAPI document: python scripts/admin_page.py -->

HTTP on `admin.host` and `admin.port`, by default `http://127.0.0.1:33480`. The relay serves the
OpenAPI document of this page at `/openapi.json`, and at `/`
the [live page and the player](../how-to/play-in-a-browser.md).

- On loopback no token is needed, but the request must name a loopback host. On any other address
  `admin.token` or `admin.token_file` must be set.
- With a token every request but `/healthz` carries `Authorization: Bearer <token>`; others get
  401.
- Requests of pages of other origins are refused. There are no cookies.
- Tables are paged: `limit` (100 by default, `admin.page_limit` at most) and `offset`; the answer
  has `total`, `offset`, `limit` and `items`.
- Tracks and namespaces are in the text form of [names](../spec/names.md).
"""
TITLES = {"state": "State", "tables": "Tables", "network": "Network", "commands": "Commands"}


def document() -> dict[str, Any]:
    # Routes only look at the relay when they are asked.
    view = cast("RelayView", None)
    return make_app(view, token=None, page_limit=1000, version=version("laps-relay")).openapi()


def page(described: dict[str, Any]) -> str:
    parts = [INTRO]
    for tag, title in TITLES.items():
        parts.append(f"## {title}\n")
        parts.append("| route | what | answers with |\n| --- | --- | --- |")
        for path, methods in described["paths"].items():
            for method, route in methods.items():
                if tag in route["tags"]:
                    parts.append(
                        f"| `{method.upper()} {path}` | {route['description']} | {answer(route)} |"
                    )
        parts.append("")
    parts.append("## Rows\n")
    for name, schema in sorted(described["components"]["schemas"].items()):
        if name in ("HTTPValidationError", "ValidationError") or name.startswith("Page_"):
            continue
        parts += [f"### {name}\n", schema.get("description", ""), ""]
        parts.append("| field | type |\n| --- | --- |")
        parts += [f"| `{field}` | {kind(spec)} |" for field, spec in schema["properties"].items()]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def answer(route: dict[str, Any]) -> str:
    code, told = next((c, r) for c, r in route["responses"].items() if c.startswith("2"))
    schema = told["content"].get("application/json", {}).get("schema")
    words = kind(schema) if schema else "text"
    return words if code == "200" else f"{code}, {words}"


def kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        row = name.removeprefix("Page_").rstrip("_")
        return f"page of {row}" if name.startswith("Page_") else row
    if "anyOf" in schema:
        return " or ".join(kind(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}"
    return str(schema.get("type", "any"))


def main() -> None:
    PAGE.write_text(page(document()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
