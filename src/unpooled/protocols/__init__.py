"""The algorithms, one per file, each written once for every driver."""
