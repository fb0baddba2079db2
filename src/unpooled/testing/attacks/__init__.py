"""Attacks by those who listen: what an honest but curious coordinator or neighbour can recover.

Each attack takes a method (:class:`Target`), tables of rows and a policy, runs the method on them
in this process, takes down all that leaves, and reports how many rows follow from it. Under
``study`` they succeed, so that it means something if they find nothing under another policy::

    from unpooled.testing.attacks import Target, suite

    for outcome in suite(Target(OneShotKMeans), tables, Deployment(), memory=Path("cells")):
        print(outcome.name, outcome.rows_recovered, outcome.of)

They are the attacks that are known to work on sums, not all there are: finding nothing proves
nothing about an attacker who knows more, for instance most of a site's rows.
"""

from unpooled.testing.attacks.all_attacks import ATTACKS, Attack, suite
from unpooled.testing.attacks.outcome import Outcome
from unpooled.testing.attacks.target import Target

__all__ = ["ATTACKS", "Attack", "Outcome", "Target", "suite"]
