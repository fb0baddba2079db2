"""Graphs of users: who talks to whom, what one host sees of it, and spanning trees."""

from unpooled.graphs.topology import Neighbourhood, Topology
from unpooled.graphs.trees import SpanningTree

__all__ = ["Neighbourhood", "SpanningTree", "Topology"]
