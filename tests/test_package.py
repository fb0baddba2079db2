"""What the package promises as a whole: exports, imports, the README."""

from __future__ import annotations

import doctest
import importlib
import io
import pkgutil
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import unpooled

ROOT = Path(__file__).parent.parent


def test_everything_exported_is_there_and_documented() -> None:
    for name in unpooled.__all__:
        member = getattr(unpooled, name)
        assert name == "__version__" or member.__doc__


@pytest.mark.parametrize(
    "name", [m.name for m in pkgutil.walk_packages(unpooled.__path__, "unpooled.")]
)
def test_every_module_imports_and_says_what_it_is_for(name: str) -> None:
    if name.endswith("__main__"):
        return
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_import_brings_nothing_and_estimators_what_scikit_learn_brings() -> None:
    """Not numba nor networkx, which take long, nor any extra; pandas only if scikit-learn does."""
    code = (
        "import sys; bare = set(sys.modules); import unpooled, unpooled.cli; "
        "print(*set(sys.modules) - bare); "
        "import sklearn.cluster; before = set(sys.modules); "
        "from unpooled import *; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        packages = {name.partition(".")[0] for name in line.split()}
        assert packages - sys.stdlib_module_names == {"unpooled"}


def documented() -> list[str]:
    """The submodules that the README names."""
    text = (ROOT / "README.md").read_text()
    return sorted({*re.findall(r"`(?:unpooled|up)\.([a-z_]+)\b", text)} - {"load", "save"})


def test_documented_submodules_are_there_after_import_unpooled() -> None:
    assert {"partition", "metrics", "preprocessing", "deep", "testing"} <= set(documented())
    assert set(documented()) <= set(dir(unpooled))
    names = set(documented()) - {"deep"}  # which takes seconds; the next test has it
    code = (
        "import sys, unpooled as up\n"
        "before = set(sys.modules)\n"
        f"for name in {sorted(names)}:\n"
        "    assert getattr(up, name) is sys.modules['unpooled.' + name]\n"
        "assert 'unpooled.partition' not in before\n"
        "assert not hasattr(up, 'no_such_module')\n"
        "assert up.partition.iid\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_submodule_whose_extra_is_missing_says_so() -> None:
    code = (
        "import sys, unpooled\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n            raise ImportError('no torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "try:\n    unpooled.deep\nexcept AttributeError as error:\n    print(error)\n"
        "try:\n    from unpooled import deep\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    line = "unpooled.deep needs PyTorch; run pip install 'unpooled[deep]'.\n"
    assert done.stdout == 2 * line


def test_the_readme_example_prints_what_it_shows() -> None:
    text = (ROOT / "README.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL).groups()  # type: ignore[union-attr]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == shown


def test_results_are_not_part_of_the_package() -> None:
    """All under src is code, or a plan: results of experiments are in docs/results."""
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    kept = {path.suffix for path in files if "__pycache__" not in path.parts}
    assert kept <= {".py", ".typed", ".toml"}


def test_the_versions_agree() -> None:
    assert f'version = "{unpooled.__version__}"' in (ROOT / "pyproject.toml").read_text()
