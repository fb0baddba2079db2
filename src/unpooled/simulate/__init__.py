"""Runs protocols inside one process: for study, for tests, and as the reference for every driver.

Nothing is encoded: the ledger computes the exact size of each message and read-only views are
handed on. The result depends on the seed alone: not on the number of threads, not on the order in
which parties finish, not on how users are grouped into blocks.
"""

from unpooled.runtime.run import Run
from unpooled.simulate.faults import AnswerLost, Deaf, Fault, LinkLost, MessagesLost, UserDown
from unpooled.simulate.mesh import run_mesh
from unpooled.simulate.options import Options
from unpooled.simulate.star import run_star

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
