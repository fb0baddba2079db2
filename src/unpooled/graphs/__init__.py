"""Graphs of users: which links there are, what one host sees of them, and spanning trees."""

from unpooled.graphs.topology import Neighbourhood, Topology
from unpooled.graphs.trees import SpanningTree

__all__ = ["Neighbourhood", "SpanningTree", "Topology"]
