"""Protocols between peers without a coordinator: one algorithm per file, or folder."""
