"""Clustering as code that numba compiles; _jit is the only importer of numba."""
