"""Calls functions of one of our JavaScript modules in node; skips where there is none.

A call is ``[function, argument...]``. Bytes travel as ``{"hex": ...}`` and integers above 2**53 as
``{"big": ...}``, both ways. What a function throws comes back as ``{"error": name}``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["call_javascript"]

HARNESS = """
import {readFileSync} from 'node:fs';
const [source, calls] = JSON.parse(readFileSync(0, 'utf8'));
// As a data URL: node would not take a .js file without a package for a module.
const encoded = Buffer.from(source).toString('base64');
const module = await import(`data:text/javascript;base64,${encoded}`);
const give = (value) => {
  if (value instanceof Uint8Array) return {hex: Buffer.from(value).toString('hex')};
  if (typeof value === 'bigint') return {big: value.toString()};
  if (Array.isArray(value)) return value.map(give);
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, give(item)]));
  }
  return value;
};
const take = (value) => {
  if (Array.isArray(value)) return value.map(take);
  if (value === null || typeof value !== 'object') return value;
  if ('hex' in value) return new Uint8Array(Buffer.from(value.hex, 'hex'));
  if ('big' in value) return BigInt(value.big);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, take(item)]));
};
const special = {
  integer: (draft, bytes) => {
    const reader = new module.Reader(draft, bytes);
    return [reader.integer(), reader.pos];
  },
  messages: (draft, bytes) => {
    const reader = new module.Reader(draft, bytes);
    const found = [];
    while (reader.left > 0) found.push(module.readMessage(reader));
    return found;
  },
  subgroup: (draft, chunks) => {
    const parser = new module.SubgroupParser(draft);
    return chunks.flatMap((chunk) => parser.feed(chunk));
  },
};
const results = calls.map(([name, ...rest]) => {
  try {
    return give((special[name] ?? module[name])(...take(rest)) ?? null);
  } catch (error) {
    return {error: error.constructor.name};
  }
});
process.stdout.write(JSON.stringify(results));
"""


def call_javascript(module: Path, calls: Sequence[Sequence[object]]) -> list[Any]:
    """Run all calls in one node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here (Debian: apt-get install nodejs)")
    done = subprocess.run(
        [node, "--input-type=module", "--eval", HARNESS],
        input=json.dumps([module.read_text(encoding="utf-8"), _plain(list(calls))]),
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = _rich(json.loads(done.stdout))
    return results


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, int) and value >= 1 << 53:
        return {"big": str(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _rich(value: Any) -> Any:
    if isinstance(value, list):
        return [_rich(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"hex"}:
            return bytes.fromhex(value["hex"])
        if value.keys() == {"big"}:
            return int(value["big"])
        return {key: _rich(item) for key, item in value.items()}
    return value
