"""What both sides agree on, from the run config."""

from flwr.app import Context

from unpooled.adapters.flower import Agreement
from unpooled.errors import InputError
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans


def agreed(context: Context) -> Agreement:
    """The run that the run config describes."""
    config = context.run_config
    k = int(config["n-clusters"])
    protocols = {
        "one-shot": OneShotKMeans(k, k),
        "federated": FederatedKMeans(OneShotKMeans(k, k), int(config["max-rounds"])),
        "feca": FeCA(k, k),
    }
    method = str(config["method"])
    if method not in protocols:
        raise InputError(
            f"The run config has method={method!r}, which is not known; give {', '.join(protocols)}"
            " with --run-config."
        )
    return Agreement(
        protocols[method],
        n_parties=int(config["n-parties"]),
        columns=tuple(column.strip() for column in str(config["columns"]).split(",")),
        seed=int(config["seed"]),
    )
