"""What both sides agree on, from the run config."""

from flwr.app import Context

from unpooled.drivers.flower import Agreement
from unpooled.protocols.feca import FeCA
from unpooled.protocols.federated import FederatedKMeans
from unpooled.protocols.oneshot import OneShotKMeans


def agreed(context: Context) -> Agreement:
    """The run that the run config describes."""
    config = context.run_config
    k = int(config["n-clusters"])
    protocols = {
        "one-shot": OneShotKMeans(k, k),
        "federated": FederatedKMeans(OneShotKMeans(k, k), int(config["max-rounds"])),
        "feca": FeCA(k, k),
    }
    return Agreement(
        protocols[str(config["method"])],
        n_parties=int(config["n-parties"]),
        columns=tuple(str(config["columns"]).split(",")),
        seed=int(config["seed"]),
    )
