"""Armacki, Bajović, Jakovetić & Kar (2024): a unified framework for gradient-based clustering."""
