"""Fuzzing of everything that parses bytes; see README.md."""
