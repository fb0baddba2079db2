r"""k-means between neighbours by gossiped sums: the clustering of pooled rows, nobody in charge.

Users i = 1..m hold rows y_ir with weights w_ir. Instead of moving centres towards each other, as
DGC does, they average what centres are made of. A *cycle* is a Lloyd step of the pooled rows:

  (a) every user labels its rows by its centres x(k) and adds up
          Q_i(k) = ( sum_{r in C_i(k)} w_ir g_ir y_ir,  sum_{r in C_i(k)} w_ir g_ir ),
      with g_ir = 1 for k-means and Bregman losses, and for other losses of the distance
      g_ir = f'(t) / t (Huber: min(1, delta/t)), by which the step never raises the cost either;
  (b) users find the mean of the Q_i, by S exchanges with their neighbours;
  (c) x(k) = (mean of sums) / (mean of weights).

**The start** is merged along a tree (:mod:`unpooled.protocols.mesh.shared.common_start`), so all users
have the same centres in the same order, made from everybody's rows.

**Averaging** is one replaceable step. By *gossip*: a polynomial in the mixing matrix
(:mod:`unpooled.kernels.linalg.polynomials`) of S exchanges. It is a *running* mean: z_i starts as
0, every cycle adds what is new, z_i += Q_i - (Q_i of the cycle before), and the polynomial leaves
the sum over users as it is and shrinks their differences by theta or more. So sum_i z_i = sum_i Q_i
always, averages need not be exact in any one cycle, and become so as rows stop changing. By *tree*:
sums go up the tree and their total comes down, exactly and to the same bits for all, in twice its
height of exchanges; far fewer numbers travel.

**Momentum.** From a merged start (from given centres every cycle is Lloyd's own step), while rows
change cluster, centres go on beyond the means, by half of the way that the means took since the
cycle before: it takes fewer steps to where they stay. As soon as they stay everywhere, which all
users know at the same time, centres go to the means themselves; and after 30 cycles always. Lloyd's
steps end after finitely many, so the end is a Lloyd point in any case.

**Stopping.** A user is calm in a cycle if none of its rows changed cluster, its centres moved by
no more than tol times the spread of the data, and no cluster is in doubt. The largest unrest
travels with the sums; a *window* is as many cycles as take a word from anybody to everybody, and at
its end all users know whether all were calm at the window's beginning (and since the one before):
so all decide alike, in the same exchange, also where a cycle is shorter than the way across the
graph. They part with one more exchange, in which they tell their centres.

**Faults.** A user that misses a neighbour, or hears one that was missing, opens a new *epoch*: it
forgets its running mean and starts again from its own sums, and whoever hears of a later epoch
does the same. Users mix with those of their own epoch only, so within an epoch the z_i add up to
the Q_i of the users in it, whatever happened before. What is guaranteed, while links carry both
ways or neither:

  * the rows of a user that is gone leave the mean, and those who remain and can reach each other
    end at one Lloyd point of their own rows; when it returns its rows count again;
  * a user that was not there at the start, or has lost its centres, adds nothing in its first
    cycle, takes centres from the mean, and counts from then on;
  * if the root of the tree dies during the start, another one's centres are taken;
  * a user who comes back after the others have parted takes the centres they parted with;
  * lost messages cost time only, as drivers repeat them.

After a fault the polynomial is one that needs no knowledge of the graph, and windows are as long as
the way through all users one after the other, or 4 times the graph's reach in a network of more
than 64 users: there a network that faults have made longer than that may stop in parts.

**What neighbours can read.** In the first exchange of a run, and of an epoch, a user sends its own
exact sums and weights of every cluster to all of its neighbours, and its innovations later can be
solved for by whoever hears it and all of its neighbours, in most cases by its neighbours alone.
Where a single row changes cluster, that is a row. By tree, the parent reads the sums of a whole
branch: exactly those of a user that has no children. No minimum count can be kept here.
"""

from unpooled.protocols.mesh.gossip.protocol import GossipKMeans

__all__ = ["GossipKMeans"]
