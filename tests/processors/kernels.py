"""What the libraries underneath have made of the processor, in this process."""

from __future__ import annotations

import scipy.linalg  # noqa: F401 (brings SciPy's OpenBLAS)
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from threadpoolctl import threadpool_info


def own_kernels() -> tuple[str, ...]:
    """The kernels that NumPy's and SciPy's OpenBLAS take."""
    found = {
        i["filepath"]: i["architecture"] for i in threadpool_info() if "openblas" in i["prefix"]
    }
    return tuple(found[file] for file in sorted(found))


def features() -> list[str]:
    """What NumPy uses of this processor beyond what every one has."""
    return [feature for feature in __cpu_dispatch__ if __cpu_features__[feature]]
