"""How a simulation is run: policies, faults, threads; none changes the result but the faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unpooled.errors import InputError
from unpooled.messages.message import Message
from unpooled.messages.release import Release
from unpooled.privacy.policy import STUDY, Policy, RunRequest, as_policy
from unpooled.simulate.faults import Fault
from unpooled.types import PartyId


@dataclass(frozen=True)
class Options:
    """How to run, none of which may change the result (but for the faults)."""

    policy: Policy | Mapping[PartyId, Policy] = STUDY
    """One for all, or each party's own."""
    faults: tuple[Fault, ...] = ()
    quorum: int | None = None
    """How many answers are enough in a star, where the protocol does not say; None means all."""
    threads: int = 1
    through_codec: bool = False
    """Send every message and every party's state through its bytes, as a network would."""
    order: Callable[[int], Sequence[int]] = field(default=range)
    """The order in which n parties are served."""
    watch: Callable[[str, Message], None] | None = None
    """Called with every message that leaves, with its sender (the first user of a block)."""

    def policy_of(self, *users: PartyId) -> Policy:
        """The policy of the users that one host carries."""
        if not isinstance(self.policy, Mapping):
            return as_policy(self.policy)
        missing = [name for name in users if name not in self.policy]
        if missing:
            raise InputError(f"Party {missing[0]} has no policy; name one for every party.")
        own = [self.policy[name] for name in users]
        if any(policy != own[0] for policy in own):
            raise InputError(
                f"Parties {users[0]} and others share a host but not a policy; give each a block "
                "of its own (blocks=number of parties)."
            )
        return as_policy(own[0])

    def preflight(
        self,
        names: Iterable[PartyId],
        releases: Sequence[Release],
        total_floats: int | None = None,
    ) -> None:
        """Refuses what a party's policy never lets out, before a long run that would come to it."""
        for name in names:
            request = RunRequest(name, tuple(releases), total_floats=total_floats)
            self.policy_of(name).preflight(request)

    def refuse_too_few(self, names: Sequence[PartyId]) -> None:
        """Refuses a run of fewer parties than one of them insists on."""
        for name in names:
            self.policy_of(name).preflight(RunRequest(name, (), n_parties=len(names)))
