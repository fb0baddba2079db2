"""Protocols between peers with nobody in charge: one algorithm per file."""
