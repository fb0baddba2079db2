"""Runs over other engines: each adapter is the only importer of its engine."""
