"""The coordinator of a star as every driver runs it: question by question, answers in between.

A driver asks what :meth:`CoordinatorRuntime.begin` hands it, gives the answers that came to
:meth:`CoordinatorRuntime.answered`, asks what that hands back, and so on until it is None: then
there is a :attr:`CoordinatorRuntime.result`. A driver that keeps each :class:`Exchange` can go on
after its process died: it begins with those it kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from unpooled.errors import ProtocolError, QuorumLost, UnpooledError
from unpooled.messages.aggregate import aggregate
from unpooled.messages.codec import encode
from unpooled.messages.conform import lengths, misfit
from unpooled.messages.message import Ask, Note, Reply
from unpooled.privacy.ledger import Ledger
from unpooled.privacy.policy import STUDY
from unpooled.protocols.pump import Pump
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.run import Run
from unpooled.types import Body, PartyId

_ONCE = np.ones(1, dtype=np.int64)


def question_digest(ask: Ask) -> str:
    """SHA-256 of the question's bytes: two with the same are the same question."""
    return sha256(encode(ask)).hexdigest()


@dataclass(frozen=True)
class Exchange:
    """A question that was answered by enough parties, as a journal keeps it."""

    question: str
    """Its :func:`question_digest`."""
    replies: Mapping[PartyId, Body]
    """The answers that the coordinator went on with, in party order."""


@dataclass(frozen=True)
class Outcome(Run):
    """What came of a run over a network, as its coordinator sees it.

    The traffic is of the questions that were heard and the answers that arrived. There are no
    remarks: they stay with the parties.
    """

    answerers: Mapping[tuple[str, int], tuple[PartyId, ...]] = field(default_factory=dict)
    """Who answered each question, named by its kind and round."""


class CoordinatorRuntime:
    """Runs the coordinator's side of a protocol; no question leaves but through its ledger.

    ``quorum`` is how many answers are enough where the protocol does not say.
    """

    def __init__(
        self,
        protocol: StarProtocol,
        n_parties: int,
        seed: int,
        observe: Callable[[Note], None] | None = None,
        quorum: int | None = None,
    ) -> None:
        self.n_parties = n_parties
        self._quorum = quorum
        self.ledger = Ledger(("coordinator",), protocol.asks, STUDY)
        self.answerers: dict[tuple[str, int], tuple[PartyId, ...]] = {}
        """Who answered: one line for each question so far, named by its kind and round."""
        generator = protocol.coordinator(np.random.default_rng([seed, n_parties]))
        self._pump: Pump[Ask] = Pump(generator, observe)
        self._asks = {release.kind: release for release in protocol.asks}
        self._releases = {release.kind: release for release in protocol.releases}
        self._asked: set[tuple[str, int]] = set()
        self._ask: Ask | None = None

    @property
    def exchange(self) -> int:
        """The number of the question that is open, from 0."""
        return len(self.answerers)

    @property
    def result(self) -> Body:
        """What the protocol came to, once there are no more questions."""
        if self._pump.result is None:
            raise ProtocolError("The run has no result yet; ask on until there are no questions.")
        return self._pump.result

    @property
    def needed(self) -> int:
        """How many answers are enough for the open question: the quorum, or all parties."""
        quorum = None if self._ask is None else self._ask.quorum
        return self.n_parties if quorum is None else quorum

    def misfit(self, reply: Reply, n_columns: int) -> str | None:
        """What of a reply to the open question is not as declared, as a clause; None if all is."""
        ask = self._ask
        if ask is None or ask.kind not in self._releases:
            return "the protocol does not declare an answer"
        known = lengths(self._asks[ask.kind], ask.body)
        return misfit(self._releases[ask.kind], reply.body, n_columns, lengths=known)

    def begin(self, journal: Iterable[Exchange] = ()) -> Ask | None:
        """The first question, or the first that the journal has no answers to; None at the end."""
        ask = self._resume(None)
        for past in journal:
            if ask is None or question_digest(ask) != past.question:
                raise ProtocolError(
                    f"Question {self.exchange} in the journal is not the one that this protocol "
                    "and seed lead to; go on with the plan that the run began with."
                )
            ask = self.answered(past.replies)
        return ask

    def answered(
        self, replies: Mapping[PartyId, Body], refusals: Iterable[UnpooledError] = ()
    ) -> Ask | None:
        """The next question after these answers, in party order; None at the end.

        If they are fewer than the quorum, this raises the first of the refusals, which say why
        parties did not answer, or QuorumLost.
        """
        ask = self._ask
        if ask is None:
            raise ProtocolError("There are answers, but no question is open; begin the run first.")
        needed = self.needed
        if len(replies) < needed:
            for refusal in refusals:
                raise refusal
            raise QuorumLost(
                f"{len(replies)} of {self.n_parties} parties answered {ask.kind!r} in round "
                f"{ask.round}, but {needed} are needed; wait for them or lower the quorum."
            )
        self.answerers[ask.kind, ask.round] = tuple(replies)
        return self._resume(replies)

    def _resume(self, replies: Mapping[PartyId, Body] | None) -> Ask | None:
        """Runs the protocol up to its next question, or to its end."""
        asked, self._ask = self._ask, None
        try:
            ask = self._pump.send(self._put_together(asked, replies))
        except UnpooledError:
            raise
        except Exception as error:
            if asked is None:
                raise
            raise ProtocolError(
                f"The answers to {asked.kind!r} of round {asked.round} are as declared, but "
                f"nothing can be made of them ({type(error).__name__}); leave out parties "
                "until it is known whose answer it was."
            ) from error
        if ask is None:
            return None
        if ask.round < 0 or (ask.kind, ask.round) in self._asked:
            raise ProtocolError(
                f"The question {ask.kind!r} of round {ask.round} was asked before, or its "
                "round is negative; kind and round must name one exchange."
            )
        self._asked.add((ask.kind, ask.round))
        if ask.quorum is None:
            ask = replace(ask, quorum=self._quorum)
        self.ledger.send(ask, _ONCE, self.exchange)
        self._ask = ask
        return ask

    def _put_together(self, asked: Ask | None, replies: Mapping[PartyId, Body] | None) -> Any:
        """What the protocol is sent: ``{party: body}``, or one body where its release says how."""
        if asked is None or replies is None:
            return None
        release = self._releases.get(asked.kind)
        return aggregate(release, replies) if release and release.aggregated else replies
