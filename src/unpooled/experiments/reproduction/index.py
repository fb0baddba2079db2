"""The list of all pages in a folder, with the count of their verdicts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from unpooled.experiments.reproduction.page import counted, rows_of
from unpooled.experiments.reproduction.registry import ENTRIES
from unpooled.experiments.reproduction.store import versions

_LEAD = """\
# Tables and figures of the papers, made again

Every page has the papers' numbers beside ours, with a verdict on each and, where they differ, our
best evidence why. `unpooled reproduce` lists them, `unpooled reproduce NAME` makes one,
`unpooled reproduce all` all of them, into the folder `reproduction`. The same seeds give the same
files, byte for byte, on the same machine; only `runs/*.times.json` differ.
"""


def write_index(folder: Path) -> None:
    """Writes ``folder/README.md`` about the pages that are there."""
    rows = [["page", "paper", "what it shows", "runs", "verdicts"]]
    total: Counter[str] = Counter()
    for entry in ENTRIES.values():
        file = folder / f"{entry.name}.json"
        if file.exists():
            found = json.loads(file.read_text())
            total.update(found["verdicts"])
            counts = counted(Counter(found["verdicts"])) or "-"
            link = f"[{entry.name}]({entry.name}.md)"
            rows.append([link, entry.paper.short, entry.shows, str(found["runs"]), counts])
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    text = [_LEAD, f"In all: {counted(Counter(total))}.\n", *rows_of(rows), f"\nVersions: {used}."]  # type: ignore[arg-type]
    (folder / "README.md").write_text("\n".join(text) + "\n")
