"""Federated kernel k-means as published, ours, and baselines, on the paper's data."""
