r"""Gossip k-means: Lloyd's method by neighbours that average sums and weights of clusters.

Users i = 1..m hold rows y_ir with weights w_ir. Instead of moving centres towards each other, as
DGC does, they average what centres are made of. One *cycle* is one Lloyd step of the pooled rows:

  (a) every user assigns its rows to its centres x(k) (``assignment``) and adds up
          Q_i(k) = ( sum_{r in C_i(k)} w_ir g_ir y_ir,  sum_{r in C_i(k)} w_ir g_ir ),
      with g_ir = 1 for k-means and Bregman losses, and for other losses of the distance
      g_ir = f'(t) / t (Huber: min(1, delta/t)), by which the step never raises the cost either;
  (b) users find the mean of the Q_i by S exchanges with their neighbours (``averaging``);
  (c) x(k) = (mean of sums) / (mean of weights) (``center_update``).

**Start.** The common start (:mod:`unpooled.protocols.mesh.shared.common_start`) gives all users the
same centres in the same order. They are the best k-means of clusters of everybody's rows, some 5K
from each user, so that the cycles, which cost most, begin near their end.

**Averaging** is one replaceable step.

  * *Gossip* applies a polynomial in the mixing matrix
    (:mod:`unpooled.kernels.linalg.polynomials`) by S exchanges: Chebyshev acceleration, or better
    where the spectrum is known. It keeps a *running* mean: z_i starts as 0, and every cycle adds
    what is new, z_i += Q_i - (Q_i of the cycle before). The polynomial leaves the sum over users as
    it is and shrinks their differences by theta or more. So sum_i z_i = sum_i Q_i always; averages
    need not be exact in any one cycle, and become so once rows stop changing cluster.
  * *Tree* sends sums up a spanning tree and their total down: exact, and the same bits for all, in
    exchanges of twice the tree's height. Far fewer numbers travel.

**Exchanges.** With R the graph's reach (its diameter, R = m/2 on a ring) and n cycles, there are

    3 R + 1  (tree, clusters up, centres down)  +  n S  +  1  (the last post).

S, the exchanges of a cycle, grows as the inverse root of the spectral gap, the smallest eigenvalue
l_2 > 0 of the mixing matrix: it is the smaller of ln(2/theta) (l_max/l_2)^½ / 2, theta = 0.03, and
the number of distinct eigenvalues, which on a ring is R. By tree S is twice the tree's height. So
graphs of small diameter take tens of exchanges, 3 to 12 cycles being usual, and on a ring they grow
in proportion to m: about (3 + n) m/2, 130 with 30 users. A few links across a long ring save most
of them.

**Momentum.** From a common start, while rows change cluster, centres go beyond the means by half of
the means' last move: fewer cycles are then needed. As soon as no row changes cluster anywhere,
which all users know at the same time, centres go to the means themselves; after 30 cycles they
always do. Lloyd's steps end after finitely many, so the end is a Lloyd point in any case. From
given centres there is no momentum: every cycle is Lloyd's own step.

**Stopping.** A user has converged in a cycle if none of its rows changed cluster, its centres moved
by no more than tol times the spread of the data, and no cluster is in doubt. The largest residual
travels with the sums (``windows``). A *window* is as many cycles as a message needs from
anybody to everybody. At its end all users know whether all had converged when it began, and since
the window before. So all decide alike, in the same exchange, even where a cycle is shorter than the
way across the graph. They terminate with one more exchange, which carries their centres
(``termination``).

**Faults.** A user that misses a neighbour, or hears one that was missing, opens a new *epoch*
(``epochs``): it forgets its running mean and starts again from its own sums, and whoever hears
of a later epoch does the same. Users mix with those of their own epoch only. So within an epoch the
z_i add up to the Q_i of the users in it, whatever happened before. Guaranteed, while links carry
both ways or neither:

  * the rows of a user that is gone leave the mean, and those who remain and can reach each other
    end at one Lloyd point of their own rows; when it returns its rows count again;
  * a user that was not there at the start, or has lost its centres, adds nothing in its first
    cycle, takes centres from the mean, and counts from then on;
  * if the root of the tree goes down during the start, another user's centres are taken;
  * a user that returns after the others have terminated takes their last centres;
  * lost messages cost time only, as they are retransmitted.

After a fault the polynomial is one that needs no knowledge of the graph. Windows are then as long
as the way through all users one after the other, or, in a network of more than 64 users, 4 times
the graph's reach. If faults have made the network longer than that, its users may stop in groups
that do not agree.

**What neighbours can read.** In the first exchange of a run, and of an epoch, a user sends its own
exact sums and weights of every cluster to all of its neighbours. What it adds later can be solved
for by whoever hears it and all of its neighbours, and in most cases by its neighbours alone. Where
a single row changes cluster, that is a row. By tree, the parent reads the sums of a whole branch:
exactly those of a user that has no children. Under the ``deployment`` policy rows are means of
cells, so what can be solved for are cells.
"""

from unpooled.protocols.mesh.gossip.protocol import GossipKMeans

__all__ = ["GossipKMeans"]
