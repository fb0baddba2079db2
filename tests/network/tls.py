"""A run whose parties are threads of one process, and talk over Zenoh and TLS all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.network.site import Authority, files_of, free_endpoints, identity_of
from tests.network.threads import Network
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.zenoh import ZenohTransport
from unpooled.network.zenoh_config import Place
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.star.base import StarProtocol


def over_tls(
    folder: Path,
    authority: Authority,
    protocol: StarProtocol | MeshProtocol,
    parties: Parties,
    kind: type[Network] = Network,
    **options: Any,
) -> Network:
    """Everybody listens but the parties of a star; peers are in a ring."""
    listening = [COORDINATOR] if isinstance(protocol, StarProtocol) else list(parties.names)
    endpoints = dict(zip(listening, free_endpoints(len(listening)), strict=True))

    def transport(name: str) -> ZenohTransport:
        others = {other: endpoints.get(other, "") for other in network.others(name)}
        place = Place(name, endpoints.get(name, ""), others)
        return ZenohTransport(place, files_of(authority.folder, name))

    ring = topology("ring", parties.names) if isinstance(protocol, MeshProtocol) else None
    everybody = {*listening, *parties.names}
    for name in everybody:
        if not files_of(authority.folder, name).key.exists():
            authority.admit(name)
    identities = {name: identity_of(authority.folder, name) for name in everybody}
    network = kind(folder, protocol, parties, transport, identities, ring, **options)
    return network
