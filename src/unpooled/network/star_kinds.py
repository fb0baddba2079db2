"""Kinds of messages between a coordinator and its parties beside those of the protocol."""

from unpooled.network.node import CONTROL

COORDINATOR = "coordinator"
"""What the coordinator is called on the network."""
RUN, READY, HERE = CONTROL + "run", CONTROL + "ready", CONTROL + "here"
REFUSAL, RESULT, BYE = CONTROL + "refusal", CONTROL + "result", CONTROL + "bye"
MEMBERS = "_members"
"""The field of a result that says whose rows are in it; no protocol's fields begin like this."""
RUN_LENGTH = 16
"""Bytes of a run's name."""
