"""Fuzzes every target for some time: ``python fuzz/run.py --seconds 60 [--only NAME]``.

Each target runs in a process of its own. What it finds worth keeping goes to ``build/fuzz``, where
the next run begins; ``--keep`` puts a small part that reaches as much into ``fuzz/corpus``, with
the seeds as they are made now, and nothing else changes files there: seeds are not the same bytes
with every release of what makes them. An input that breaks a target is kept in ``fuzz/crashes``,
and the line that repeats it is printed.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CORPUS, CRASHES, BUILD = HERE / "corpus", HERE / "crashes", ROOT / "build"
GROWN, SEEDS = "fuzz", "fuzz-seeds"
MOST_FILES, MOST_BYTES = 90, 190_000
_SLOW = 30
"""Seconds that one input may take on a busy machine."""
_MEMORY = 2048
"""Megabytes that a target may take."""


@dataclass(frozen=True)
class Outcome:
    """What came of fuzzing a target."""

    executions: int
    edges: int
    crashes: tuple[Path, ...]
    ended: bool
    said: str


def main() -> int:
    """Fuzzes all targets, or those named."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=int, default=60, help="for each target")
    options.add_argument("--only", action="append", metavar="NAME", help="this target")
    options.add_argument("--keep", action="store_true", help="renew fuzz/corpus")
    options.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    options.add_argument("--repeat", nargs=2, metavar=("NAME", "FILE"), help="run one input")
    known, rest = options.parse_known_args()
    sys.path.insert(0, str(ROOT))
    if known.child:
        return _fuzz(known.child, rest)
    from fuzz.targets import TARGETS

    if known.repeat:
        TARGETS[known.repeat[0]].one(Path(known.repeat[1]).read_bytes())
        return 0
    names = known.only or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        options.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    crashed = 0
    for name in names:
        sow(name, BUILD / SEEDS / name)
        outcome = fuzz(name, known.seconds)
        print(_line(name, outcome, known.seconds), flush=True)
        crashed += not outcome.ended
        if known.keep:
            sow(name, CORPUS / name)
            keep(name)
    return 1 if crashed else 0


def sow(name: str, folder: Path) -> None:
    """Writes the target's seeds, and takes away those that are none any more."""
    from fuzz.targets import TARGETS

    folder.mkdir(parents=True, exist_ok=True)
    seeds = {f"seed-{label}": content for label, content in TARGETS[name].seeds()}
    for path in folder.glob("seed-*"):
        if path.name not in seeds:
            path.unlink()
    for file, content in seeds.items():
        (folder / file).write_bytes(content)


def fuzz(name: str, seconds: int) -> Outcome:
    """Runs the fuzzer on one target."""
    grown, crashes = BUILD / GROWN / name, CRASHES / name
    for folder in (grown, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(crashes.iterdir())
    arguments = [f"-max_total_time={seconds}", "-print_final_stats=1"]
    read = (grown, BUILD / SEEDS / name, CORPUS / name)
    done = _child(name, [*arguments, *map(str, read)])
    found = tuple(sorted(set(crashes.iterdir()) - before))
    executions = re.findall(r"number_of_executed_units: (\d+)", done.stdout)
    edges = re.findall(r" cov: (\d+)", done.stdout)
    return Outcome(
        int(executions[-1]) if executions else 0,
        int(edges[-1]) if edges else 0,
        found,
        done.returncode == 0,
        done.stdout,
    )


def keep(name: str) -> None:
    """Adds to the seeds what else is needed to reach as much as has ever been reached."""
    folder, grown = CORPUS / name, BUILD / GROWN / name
    with tempfile.TemporaryDirectory() as fresh:
        chosen = Path(fresh)
        old = [path for path in folder.iterdir() if not path.name.startswith("seed-")]
        for path in old:
            shutil.copy(path, grown / path.name)
        for path in folder.glob("seed-*"):
            shutil.copy(path, chosen)
        done = _child(name, ["-merge=1", "-use_counters=0", str(chosen), str(grown)])
        if done.returncode:
            print(done.stdout[-2000:], file=sys.stderr)
            return
        added = [path for path in chosen.iterdir() if not path.name.startswith("seed-")]
        seeds = list(folder.glob("seed-*"))
        room, files = MOST_BYTES - sum(path.stat().st_size for path in seeds), len(seeds)
        for path in old:
            path.unlink()
        for path in sorted(added, key=lambda path: (path.stat().st_size, path.name)):
            room -= path.stat().st_size
            files += 1
            if room < 0 or files > MOST_FILES:
                break
            shutil.copy(path, folder / path.name[:16])


def _child(name: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, "--child", name, *arguments]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    return subprocess.run(
        command,
        env=settings,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def _line(name: str, outcome: Outcome, seconds: int) -> str:
    line = f"{name:12} {outcome.executions:9} executions in {seconds} s, {outcome.edges:5} edges, "
    line += f"{len(outcome.crashes)} crashes"
    if not outcome.ended:
        tail = "\n".join(outcome.said.splitlines()[-60:]) if not outcome.crashes else _why(outcome)
        line += f"\n{tail}"
    for path in outcome.crashes:
        shown = path.relative_to(ROOT)
        line += f"\n  again: {sys.executable} fuzz/run.py --repeat {name} {shown}"
    return line


def _why(outcome: Outcome) -> str:
    """The traceback, or what the fuzzer says in its place."""
    lines = outcome.said.splitlines()
    starts = [i for i, line in enumerate(lines) if "exception" in line or "ERROR" in line]
    return "\n".join("  " + line for line in lines[starts[0] if starts else -40 :][:60])


def _fuzz(name: str, arguments: list[str]) -> int:
    """In the process of one target: everything of ours counts its branches."""
    import atheris

    with atheris.instrument_imports(include=["unpooled"]):
        from fuzz.targets import TARGETS
    logging.disable(logging.CRITICAL)
    target = TARGETS[name]
    with tempfile.NamedTemporaryFile("w", suffix=".dict") as words:
        words.writelines('"' + word.replace('"', '\\"') + '"\n' for word in target.words)
        words.flush()
        # As the command that libFuzzer starts for itself when it merges.
        command = f"{sys.executable} {__file__} --child {name}"
        settings = {
            "artifact_prefix": f"{CRASHES / name}/",
            "timeout": _SLOW,
            "rss_limit_mb": _MEMORY,
            "max_len": target.longest,
            **({"dict": words.name} if target.words else {}),
        }
        atheris.Setup(
            [command, *(f"-{key}={value}" for key, value in settings.items()), *arguments],
            target.one,
        )
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
