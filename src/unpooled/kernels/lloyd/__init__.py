"""k-means and its kin on one table at a time."""
