"""The list of all pages in a folder, with the count of their verdicts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from unpooled.errors import InputError
from unpooled.experiments.reproduction.page import counted, rows_of
from unpooled.experiments.reproduction.registry import ENTRIES
from unpooled.experiments.reproduction.store import versions
from unpooled.experiments.reproduction.verdicts import SHORT, Verdict

_LEAD = """\
# Tables and figures of the papers, made again

Every page has the papers' numbers beside ours, with a verdict on each and, where they differ, our
best evidence why. `unpooled reproduce` lists them, `unpooled reproduce NAME` makes one,
`unpooled reproduce all` all of them, into the folder `reproduction`. The same seeds give the same
files, byte for byte, on the same machine; only times differ (`runs/*.times.json` and
`comparison-times.md`). "Runs" are the most that any part of a page has; parts that take long have
fewer, as the page says.
"""


def write_index(folder: Path) -> None:
    """Writes ``folder/README.md`` about the pages that are there."""
    rows = [["page", "paper", "what it shows", "runs", "verdicts"]]
    total: Counter[Verdict] = Counter()
    for entry in ENTRIES.values():
        file = folder / f"{entry.name}.json"
        if file.exists():
            try:
                found = json.loads(file.read_text())
                verdicts, runs = Counter(found["verdicts"]), str(found["runs"])
                quick = " (quick)" * bool(found.get("quick"))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"{file} cannot be read: make it again (unpooled reproduce {entry.name})."
                ) from error
            total.update(verdicts)
            link = f"[{entry.name}]({entry.name}.md)"
            counts = counted(verdicts) or "-"
            rows.append([link, entry.paper.short, entry.shows, runs + quick, counts])
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    text = [
        _LEAD,
        f"{SHORT}\n\nIn all: {counted(total)}.\n",
        *rows_of(rows),
        f"\nVersions: {used}.",
    ]
    (folder / "README.md").write_text("\n".join(text) + "\n")
