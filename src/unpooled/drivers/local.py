"""Runs protocols inside one process: for study, for tests, and as the reference for every driver.

Nothing is encoded: the ledger computes the exact size of each message and read-only views are
handed on. The result depends on the seed alone: not on the number of threads, not on the order in
which parties finish, not on how users are grouped into blocks.
"""

from unpooled.drivers.faults import AnswerLost, Deaf, Fault, LinkLost, MessagesLost, UserDown
from unpooled.drivers.local_mesh import run_mesh
from unpooled.drivers.local_star import run_star
from unpooled.drivers.options import Options, Run

__all__ = [
    "AnswerLost",
    "Deaf",
    "Fault",
    "LinkLost",
    "MessagesLost",
    "Options",
    "Run",
    "UserDown",
    "run_mesh",
    "run_star",
]
