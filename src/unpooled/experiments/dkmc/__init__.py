"""Armacki et al. (2024): distributed gradient clustering and the effect of initialisation."""
