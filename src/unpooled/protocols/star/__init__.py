"""Protocols with a coordinator: one algorithm per file, both sides of the conversation in it."""
