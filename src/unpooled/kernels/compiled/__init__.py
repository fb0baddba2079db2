"""Rounds of clustering as code that numba compiles; _jit is the only importer of numba."""
