"""What several peer-to-peer protocols share."""
