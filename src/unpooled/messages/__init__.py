"""What travels: messages, what protocols declare of them, and their bytes."""

from unpooled.messages.codec import Limits, decode, encode, encoded_size
from unpooled.messages.message import Ask, Note, Post, Reply
from unpooled.messages.release import Release

__all__ = [
    "Ask",
    "Limits",
    "Note",
    "Post",
    "Release",
    "Reply",
    "decode",
    "encode",
    "encoded_size",
]
