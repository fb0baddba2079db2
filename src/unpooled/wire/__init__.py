"""What leaves a party: messages, their bytes, and the ledger that lets them out."""

from unpooled.wire.codec import Limits, decode, encode, encoded_size
from unpooled.wire.ledger import Ledger
from unpooled.wire.message import Ask, Note, Post, Reply, Summary
from unpooled.wire.policy import DEPLOYMENT, STUDY, Deployment, Policy, Release, Study
from unpooled.wire.traffic import Traffic

__all__ = [
    "DEPLOYMENT",
    "STUDY",
    "Ask",
    "Deployment",
    "Ledger",
    "Limits",
    "Note",
    "Policy",
    "Post",
    "Release",
    "Reply",
    "Study",
    "Summary",
    "Traffic",
    "decode",
    "encode",
    "encoded_size",
]
