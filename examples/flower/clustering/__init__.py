"""Clusters csv files at sites that run Flower."""
