"""``unpooled reproduce all --quick``, twice; and what the committed pages say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.stand_ins import write_stand_ins
from unpooled.experiments.reproduction.registry import ENTRIES, OURS
from unpooled.experiments.reproduction.verdicts import AGREEING

PAGES = Path(__file__).parent.parent.parent / "docs" / "reproduction"
NEEDS_NO_REASON = (*AGREEING, "not printed")


def reproduce_all(folder: Path, data: Path) -> str:
    """What the command printed."""
    command = [sys.executable, "-m", "unpooled.cli", "reproduce", "all", "--quick"]
    done = subprocess.run(
        [*command, "--to", str(folder)],
        env={**os.environ, "UNPOOLED_DATA": str(data)},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lasting_files(folder: Path) -> dict[str, bytes]:
    """All files but those with times."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in files
        if "times" not in path.name
    }


@pytest.mark.long
def test_all_of_it_runs_and_gives_the_same_files_again(tmp_path: Path) -> None:
    write_stand_ins(tmp_path)
    said = reproduce_all(tmp_path / "a", tmp_path)
    assert "left out" not in said
    files = lasting_files(tmp_path / "a")
    for name in ENTRIES:
        assert f"{name}.md" in files
        assert f"{name}.md: " in said
        if "figure" in name:
            assert f"{name}.svg" in files
    assert lasting_files(tmp_path / "b") == {}
    reproduce_all(tmp_path / "b", tmp_path)
    again = lasting_files(tmp_path / "b")
    assert list(again) == list(files)
    assert [name for name in files if files[name] != again[name]] == []


@pytest.mark.parametrize(
    "name", [entry.name for entry in ENTRIES.values() if entry.paper is not OURS]
)
def test_every_cell_of_a_page_has_a_verdict_and_a_reason_where_it_differs(name: str) -> None:
    found = json.loads((PAGES / f"{name}.json").read_text())
    cells = [cell for table in found["tables"] for cell in table["cells"]]
    assert cells
    for cell in cells:
        assert cell["why"] or cell["verdict"] in NEEDS_NO_REASON, cell
    assert found["conclusion"].endswith(".")
    text = (PAGES / f"{name}.md").read_text()
    assert f"unpooled reproduce {name}\n" in text
    assert "quick" not in text.split("## How it was made")[0]


def test_what_runs_found_is_committed_for_every_page() -> None:
    assert not list((PAGES / "runs").glob("*.partial.jsonl"))
    for file in (PAGES / "runs").glob("*.json"):
        kept = json.loads(file.read_text())
        assert file.name.endswith(".times.json") or (kept["results"] and not kept["quick"]), file
        assert file.stat().st_size < 1_000_000, file
