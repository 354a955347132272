"""Sphinx settings: MyST pages, one theme, nothing that needs the network."""

from __future__ import annotations

import tomllib
from pathlib import Path

_wire = Path(__file__).parent.parent / "packages" / "laps-wire" / "pyproject.toml"

project = "LAPS for Python"
author = "The LAPS for Python authors"
release = tomllib.loads(_wire.read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_title = f"LAPS {release}"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = True
# What a command prints is not a shell's language; the lexer's relaxed mode is what we want there.
suppress_warnings = ["misc.highlighting_failure"]
# Annotations of the standard library and of type variables have no page of ours to point to.
nitpick_ignore_regex = [(r"py:.*", r".*")]
