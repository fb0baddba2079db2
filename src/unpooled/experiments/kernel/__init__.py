"""Federated kernel k-means, its rivals and ours, on the paper's data."""
