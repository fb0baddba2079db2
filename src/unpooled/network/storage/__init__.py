"""What a process keeps on disk, so that a later one can resume."""
