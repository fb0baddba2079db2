"""Algorithms, each written once, that yield what they want to send and are handed what arrived."""
