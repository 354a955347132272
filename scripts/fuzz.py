"""Run the fuzz targets of ``tests/fuzz/targets`` with atheris, starting from the kept corpus.

A target is a module with ``one_input(data)`` (anything but a LAPS error that escapes is a bug) and
``seeds()``. Its corpus is ``tests/fuzz/corpus/<target>.hex``: one input a line, in hex, so that it
diffs well and every Python replays it in the ordinary tests.

    python scripts/fuzz.py                          every target, 10 seconds each
    python scripts/fuzz.py --seconds 600 laps2_control
    python scripts/fuzz.py --keep                   also merge what was found into the corpus

Exit code 0: nothing found; 1: a target failed (its input is added to the corpus and printed);
2: usage. Where atheris does not install, the corpus is replayed and the table says so.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "tests" / "fuzz"
CORPUS = FUZZ / "corpus"
MAX_LEN = 4096
#: Of what covered something new, the shortest are kept: they say the same in fewer bytes.
KEPT_INPUTS = 120


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one target's run showed."""

    target: str
    ok: bool
    executions: int
    edges: int
    inputs: int
    note: str = ""


def target_names() -> list[str]:
    """Every target module, by name."""
    return sorted(
        path.stem for path in (FUZZ / "targets").glob("*.py") if not path.stem.startswith("_")
    )


def read_corpus(name: str) -> list[bytes]:
    """The kept inputs of a target."""
    path = CORPUS / f"{name}.hex"
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii").splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def write_corpus(name: str, inputs: set[bytes]) -> None:
    """Keep inputs, shortest first, so that diffs stay small."""
    CORPUS.mkdir(exist_ok=True)
    ordered = sorted(inputs, key=lambda item: (len(item), item))
    text = "".join(f"{item.hex()}\n" for item in ordered)
    (CORPUS / f"{name}.hex").write_text(text, encoding="ascii")


def child(name: str, directory: str, arguments: list[str]) -> None:
    """Inside the subprocess: hand one target to libFuzzer. Does not return."""
    import atheris  # noqa: PLC0415 - only the child needs it, and only where it installs

    with atheris.instrument_imports(include=["laps_wire", "laps_sdk", "laps_relay"]):
        target = load(name)
    atheris.Setup([name, directory, *arguments], target.one_input)
    atheris.Fuzz()


def libfuzzer(name: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start the child for one target and wait for it."""
    command = [sys.executable, __file__, "--child", name, str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def number(pattern: str, text: str) -> int:
    """The last number that ``pattern`` captures in libFuzzer's output, or 0."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def load(name: str) -> Any:
    """Import a target."""
    for place in (FUZZ, ROOT / "tests"):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))
    return importlib.import_module(f"targets.{name}")


def fuzz(name: str, seeds: list[bytes], seconds: int, *, keep: bool) -> Outcome:
    """Fuzz one target for ``seconds``."""
    with tempfile.TemporaryDirectory() as place:
        inputs = Path(place, "inputs")
        inputs.mkdir()
        for index, item in enumerate({*seeds, *read_corpus(name)}):
            (inputs / f"kept-{index:05}").write_bytes(item)
        ended = libfuzzer(
            name,
            inputs,
            f"-max_total_time={seconds}",
            f"-max_len={MAX_LEN}",
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            f"-artifact_prefix={place}/failed-",
        )
        output = ended.stdout + ended.stderr
        failed = [path.read_bytes() for path in Path(place).glob("failed-*")]
        if failed:
            write_corpus(name, {*read_corpus(name), *failed})
        elif keep:
            found = sorted((path.read_bytes() for path in inputs.iterdir()), key=len)
            write_corpus(name, {*read_corpus(name), *found[:KEPT_INPUTS]})
        note = ""
        if ended.returncode:
            reason = re.findall(r"^.*(?:Error|Exception).*$", output, re.MULTILINE)
            note = f"{reason[-1] if reason else output[-400:]} input {[f.hex() for f in failed]}"
        return Outcome(
            target=name,
            ok=ended.returncode == 0,
            executions=number(r"stat::number_of_executed_units:\s*(\d+)", output),
            edges=number(r"cov: (\d+)", output),
            inputs=number(r"corp: (\d+)", output),
            note=note,
        )


def replay(target: Any, name: str) -> Outcome:
    """Without atheris: run the seeds and the kept corpus once."""
    inputs = {*target.seeds(), *read_corpus(name)}
    for item in inputs:
        target.one_input(item)
    return Outcome(name, True, len(inputs), 0, len(inputs), "replayed only: no atheris here")


def main(argv: list[str]) -> int:
    """Parse, run, report."""
    if argv[:1] == ["--child"]:
        child(argv[1], argv[2], argv[3:])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", help="target names (default: all)")
    parser.add_argument("--seconds", type=int, default=10, help="for each target (default: 10)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--keep", action="store_true", help="merge new inputs into the corpus")
    parser.add_argument("--json", action="store_true", help="one JSON object a target")
    arguments = parser.parse_args(argv)
    known = target_names()
    unknown = sorted(set(arguments.targets) - set(known))
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}; known: {', '.join(known)}")
    names = arguments.targets or known
    have_atheris = importlib.util.find_spec("atheris") is not None

    # Imported here, one by one: modules that import each other deadlock in threads.
    targets = {name: load(name) for name in names}

    def run(name: str) -> Outcome:
        if not have_atheris:
            return replay(targets[name], name)
        return fuzz(name, targets[name].seeds(), arguments.seconds, keep=arguments.keep)

    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        for outcome in pool.map(run, names):
            outcomes.append(outcome)
            if arguments.json:
                print(json.dumps(asdict(outcome)))
            else:
                state = "ok    " if outcome.ok else "FAILED"
                print(
                    f"{state} {outcome.target:28} {outcome.executions:>10,} executions"
                    f" {outcome.edges:>6} edges {outcome.inputs:>5} inputs  {outcome.note}",
                    flush=True,
                )
    failed = [outcome.target for outcome in outcomes if not outcome.ok]
    if not arguments.json:
        total = sum(outcome.executions for outcome in outcomes)
        print(f"{len(outcomes)} targets, {total:,} executions, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
