"""The parts of pages that follow from the code: README's tables, docs/API.md, ARCHITECTURE's files.

``make pages`` (``python -m tests.pages``) writes them; tests fail while they are not up to date.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections import Counter
from pathlib import Path

from unpooled import catalog
from unpooled.experiments.reproduction.registry import ENTRIES, OURS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "unpooled"
PUBLIC = {
    "unpooled": "Estimators, and saving them. `unpooled.catalog` has what is known of each.",
    "unpooled.adapters.flower": "Runs over Flower.",
    "unpooled.baselines": "Pooled references.",
    "unpooled.datasets": "Data sets on disk.",
    "unpooled.deep": "Representation learning; needs PyTorch.",
    "unpooled.estimators": "The same estimators.",
    "unpooled.graphs": "Graphs of users.",
    "unpooled.image_sets": "Sets of images on disk.",
    "unpooled.losses": "Losses and metrics of mesh methods.",
    "unpooled.messages": "Messages, for protocols of one's own.",
    "unpooled.metrics": "Measures of a clustering.",
    "unpooled.partition": "Splits of a table among parties, for study.",
    "unpooled.persistence": "Saved models.",
    "unpooled.preprocessing": "Preparation of rows without pooling.",
    "unpooled.privacy": "Policies, ledgers, traffic.",
    "unpooled.simulate": "Runs inside one process, with faults.",
    "unpooled.testing": "Conformance checks for protocols and estimators of one's own.",
}
"""Modules that users may rely on, and what is in them."""
_FILES = "## Every file\n"


def first_sentence(file: Path) -> str:
    """What the file says of itself, up to the first full stop."""
    text = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
    return re.split(r"(?<=[.!?])(?<!et al\.)\s|::$|:: ", text)[0].rstrip(".:")


def files() -> str:
    """One line for every file, folder by folder."""
    lines = []
    for folder in sorted({file.parent for file in SOURCE.rglob("*.py")}):
        name = folder.relative_to(SOURCE.parent).as_posix()
        lines += ["", f"**`{name}/`** {first_sentence(folder / '__init__.py')}", ""]
        lines += [
            f"- `{file.name}`: {first_sentence(file)}"
            for file in sorted(folder.glob("*.py"))
            if not file.name.startswith("__")
        ]
    return "\n".join(lines) + "\n"


def architecture() -> str:
    """ARCHITECTURE.md with its list of files."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return text.split(_FILES)[0] + _FILES + files()


def api() -> str:
    """docs/API.md."""
    parts = [
        "# The public API\n\nEverything that users may rely on, module by module; what is not here "
        "may change.\n`make pages` writes this page.\n"
    ]
    for name, about in PUBLIC.items():
        members = sorted(importlib.import_module(name).__all__)
        parts.append(f"## `{name}`\n\n{', '.join(f'`{own}`' for own in members)}\n\n{about}\n")
    return "\n".join(parts)


def readme_table(role: str) -> str:
    """The README's table of the methods of one role."""
    title, *facts = {
        "star": ("with a coordinator", "rounds", "sent by a party"),
        "mesh": ("peer to peer", "agreement of users"),
    }[role]
    lines = [f"| {title} | what it does | {' | '.join(facts)} | discloses |"]
    lines.append("|---" * (len(facts) + 3) + "|")
    for method in catalog.METHODS:
        if method.role == role:
            name = f"**`{method.name}`**" if method.first_to_try else f"`{method.name}`"
            disclosed = ", ".join(method.discloses)
            cells = (name, method.about, *method.costs, disclosed)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


REPRODUCTION = ROOT / "docs" / "reproduction"
VERDICT_COLUMNS = {
    "agree or hold": ("agrees", "holds"),
    "close": ("close",),
    "better than printed": ("better",),
    "differ, with evidence": ("worse", "higher", "lower", "does not hold"),
}


def science_table() -> str:
    """How many of each paper's numbers and claims reproduce, as the committed pages have it."""
    heads = ["paper", "tables and figures", "comparisons", *VERDICT_COLUMNS]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    counts: dict[str, Counter[str]] = {}
    pages: Counter[str] = Counter()
    for entry in ENTRIES.values():
        file = REPRODUCTION / f"{entry.name}.json"
        if entry.paper is not OURS and file.exists():
            found = json.loads(file.read_text())
            counts.setdefault(entry.paper.short, Counter()).update(found["verdicts"])
            pages[entry.paper.short] += 1
    for paper, verdicts in counts.items():
        columns = [sum(verdicts[name] for name in names) for names in VERDICT_COLUMNS.values()]
        cells = [paper, pages[paper], sum(columns), *columns]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def choosing_table() -> str:
    """Which method to use when, as the committed comparison has it."""
    return (REPRODUCTION / "decision.md").read_text().rstrip("\n")


def readme() -> str:
    """README.md with its tables of methods, of which to use when, and of verdicts."""
    text = (ROOT / "README.md").read_text()
    tables = (readme_table("star"), readme_table("mesh"), choosing_table(), science_table())
    for table in tables:
        start = text.index(table.split(" | ")[0])
        text = text[:start] + table + text[text.index("\n\n", start) :]
    return text


PAGES = {"ARCHITECTURE.md": architecture, "docs/API.md": api, "README.md": readme}

if __name__ == "__main__":
    for place, write in PAGES.items():
        (ROOT / place).write_text(write())
