"""Pooled references: kernel k-means of one table, to see what is lost where rows cannot be pooled.

Nothing here is federated: whoever fits one of these has all rows, and keeps some of them.
"""

from unpooled.baselines.exact import ExactKernelKMeans
from unpooled.baselines.nystrom import NystromKMeans

__all__ = ["ExactKernelKMeans", "NystromKMeans"]
