"""The same bits on every processor: what must be so is tested as other processors would run it.

OpenBLAS, which NumPy and SciPy each bring along, has kernels for many processors and takes those
that ``OPENBLAS_CORETYPE`` names, if the processor has the instructions for them. NumPy's own loops
are told by ``NPY_DISABLE_CPU_FEATURES`` to do without. Both are read once, by a new process.

Tests of determinism have the mark ``bits``. All of them but the long ones run here for every core
type in `make test-long`, the most telling ones for one that is not the processor's own in
`make test`.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.processors.fits import SETS, fitted
from tests.processors.kernels import features, own_kernels

ROOT = Path(__file__).parents[2]
AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
CORE_TYPES = {
    "Prescott": {"pni"},
    "Nehalem": {"sse4_2"},
    "Sandybridge": {"avx"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": AVX512,
    "Cooperlake": {*AVX512, "avx512_bf16"},
    "SapphireRapids": {*AVX512, "avx512_bf16", "amx_bf16"},
}
"""What OPENBLAS_CORETYPE may be, and the flags in /proc/cpuinfo that its kernels need."""
TELLING = (
    "tests/kernels/linalg/test_products.py",
    "tests/conformance/test_protocols.py",
    "-k",
    "test_products or (memory_layout and not dgc and not gossip)",
)
"""A mesh's rounds have no dense products."""
ALL = ("-m", "bits and not long", "--numprocesses", "2")
TOLERANCE = 1e-9


@cache
def flags() -> set[str]:
    """What the processor can do, in the words of Linux; nothing where it is no x86."""
    file = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not file.exists():
        return set()
    lines = file.read_text().splitlines()
    return set(next(line for line in lines if line.startswith("flags")).split())


def can_run() -> list[str]:
    return [name for name, needed in CORE_TYPES.items() if needed <= flags()]


@cache
def kernels(core: str) -> tuple[str, ...]:
    """Those that NumPy's and SciPy's OpenBLAS take for a core type."""
    code = "from tests.processors.kernels import own_kernels; print(*own_kernels())"
    return tuple(_run([sys.executable, "-c", code], _as(core)).split())


def distinct() -> list[str]:
    """Core types that the processor can run, one for each set of kernels.

    A build of OpenBLAS need not have kernels for each of them: Zen's are Haswell's in most.
    """
    by_kernels: dict[tuple[str, ...], str] = {}
    for core in can_run():
        by_kernels.setdefault(kernels(core), core)
    return list(by_kernels.values())


def other() -> str:
    """A core type that is unlike this process's own, for what there is time for only once."""
    for core in ("Prescott", "Haswell"):
        if core in can_run() and kernels(core) != own_kernels():
            return core
    pytest.skip("OpenBLAS has no kernels for this processor but one")


def _as(core: str) -> dict[str, str]:
    return {"OPENBLAS_CORETYPE": core}


def _plain() -> dict[str, str]:
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(features())}


def _run(command: list[str], settings: dict[str, str]) -> str:
    inherited = {name: value for name, value in os.environ.items() if name[:7] != "PYTEST_"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": os.pathsep.join(sys.path), **settings},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"{settings}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _tested(settings: dict[str, str], *which: str) -> None:
    said = _run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *which], settings)
    assert " passed" in said, said


def _fitted(folder: Path, settings: dict[str, str], *sets: str) -> dict[str, np.ndarray]:
    file = folder / "fits.npz"
    command = [sys.executable, "-W", "ignore", "-m", "tests.processors.fits", str(file), *sets]
    _run(command, settings)
    with np.load(file) as found:
        return dict(found)


def _alike(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name.endswith("labels"):
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        else:
            np.testing.assert_allclose(found[name], value, rtol=0, atol=TOLERANCE, err_msg=name)


def test_core_types_are_told_apart() -> None:
    """Else all that follows would run on the same kernels again and again."""
    if not flags():
        pytest.skip("only x86 processors are known here")
    assert "Prescott" in can_run()
    if "Haswell" in can_run():
        assert kernels("Haswell") != kernels("Prescott")


def test_the_telling_tests_pass_on_another_processor() -> None:
    _tested(_as(other()), *TELLING)


@pytest.mark.long
@pytest.mark.parametrize("core", can_run())
def test_determinism_on_every_processor(core: str) -> None:
    if core not in distinct():
        pytest.skip(f"OpenBLAS has no kernels for {core} but those of {kernels(core)[0]}")
    _tested(_as(core), *ALL)


@pytest.mark.long
def test_determinism_without_what_numpy_knows_of_the_processor() -> None:
    code = "from tests.processors.kernels import features; print(features())"
    assert _run([sys.executable, "-c", code], _plain()).strip() == "[]"
    _tested(_plain(), *ALL)


@pytest.mark.long
def test_every_processor_finds_the_same_clusters(tmp_path: Path) -> None:
    expected = fitted(*SETS)
    for settings in (*map(_as, distinct()), _plain()):
        _alike(_fitted(tmp_path, settings, *SETS), expected)
