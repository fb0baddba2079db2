"""Peer-to-peer k-means by gossiped sums, held against its bars and against other methods."""
