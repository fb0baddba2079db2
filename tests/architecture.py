"""Prints ARCHITECTURE.md's list of every file, from the first sentences of their docstrings.

python -m tests.architecture
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "unpooled"


def first_sentence(file: Path) -> str:
    """What the file says of itself, up to the first full stop."""
    text = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
    return re.split(r"(?<=[.!?])\s|::$|:: ", text)[0].rstrip(".:")


def lines() -> list[str]:
    """One line for every file, folder by folder."""
    found = []
    for folder in sorted({file.parent for file in SOURCE.rglob("*.py")}):
        files = sorted(file for file in folder.glob("*.py") if file.name != "__main__.py")
        name = folder.relative_to(SOURCE.parent).as_posix()
        found += ["", f"**`{name}/`** {first_sentence(folder / '__init__.py')}", ""]
        found += [
            f"- `{file.name}`: {first_sentence(file)}"
            for file in files
            if file.name != "__init__.py"
        ]
    return found


if __name__ == "__main__":
    print("\n".join(lines()).strip())
