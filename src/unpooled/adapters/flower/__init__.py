"""Runs a protocol with a coordinator over Flower (flwr), for sites that run Flower already.

The coordinator is a ServerApp, every party a ClientApp at its own SuperNode::

    app = server_app(agreed, keep)        # whoever starts the run
    app = client_app(agreed, load_data)   # every site

``agreed`` is an :class:`unpooled.runtime.agreement.Agreement`, or makes one from Flower's context;
both sides must come to the same. The result is that of :func:`unpooled.simulate.run_star` with the
same seed and policies, bit for bit. ``examples/flower`` is an app that is ready to run.

A site's SuperNode has in its node config who it is: ``partition-id`` is the party's number, from 0,
and ``name`` what it is called (the number if left out). There the site also decides what may leave
it: its ``policy`` (a name in :data:`unpooled.privacy.policy.POLICIES`) and ``min-count`` override
those of the app, and ``memory`` is the folder in which its cells are kept for this and later runs:
without one it takes no part under a policy with a minimum count.

What to know about Flower:

- **Whoever may start runs chooses the app that Flower runs at the sites.** A ledger protects a
  party from questions, not from other programs: sites that do not trust whoever starts runs read
  the app, and have their SuperNode take none that is not signed for it (``--trusted-entities``).
- Flower sends the coordinator the text of any exception that a ClientApp raises, and it may quote
  values. This one raises none: the coordinator is sent a sentence that quotes none, the rest is in
  the site's own log.
- The party's memory between questions is kept by its SuperNode, and lost if that is restarted.
  The party then takes no further part in the run, since it no longer knows what it has sent.
- Flower reports its use and looks for updates. Importing this module before flwr turns off both,
  unless ``FLWR_TELEMETRY_ENABLED`` or ``FLWR_DISABLE_UPDATE_CHECK`` are set; Flower's own programs
  import flwr first, so set these to 0 and 1 where you start them.
"""

import os
import warnings

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
with warnings.catch_warnings():
    # flwr imports its command line too, which uses what click is about to drop.
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    import flwr.clientapp
    import flwr.serverapp  # noqa: F401

# isort: split
from unpooled.adapters.flower.coordinator import run_star, server_app
from unpooled.adapters.flower.party import client_app
from unpooled.runtime.agreement import Agreement
from unpooled.runtime.coordinator import Outcome

__all__ = ["Agreement", "Outcome", "client_app", "run_star", "server_app"]
