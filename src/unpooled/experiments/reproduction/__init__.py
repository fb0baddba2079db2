"""How tables and figures of papers are made again: tasks, results on disk, verdicts, pages."""
