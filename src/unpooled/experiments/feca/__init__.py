"""Experiments of the FeCA paper (Xu et al. 2024), and what one-shot methods cost elsewhere."""
