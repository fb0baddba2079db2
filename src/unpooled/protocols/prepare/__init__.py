"""Preparations: what is found of all rows first, and how rows are mapped by it."""
