"""Runs between real sites: keys, plans and the programs that carry messages over a network."""
