"""A party as Flower's ClientApp."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, UserConfig
from flwr.clientapp import ClientApp

from unpooled.adapters.flower.envelope import (
    ACTION,
    KEY,
    LONGEST,
    Agreed,
    Outdated,
    PartyReply,
    Question,
    agreement_of,
    question_of,
    record,
)
from unpooled.data.parties import PartyData
from unpooled.data.tables import Expected, read
from unpooled.errors import (
    InputError,
    LedgerRefusal,
    MalformedMessage,
    PolicyRefusal,
    ProtocolError,
    WireError,
)
from unpooled.messages.codec import Encoded, decode
from unpooled.messages.conform import misfit
from unpooled.messages.message import Ask
from unpooled.privacy.policy import POLICIES, Policy, RunRequest, as_policy
from unpooled.privacy.site_rows import SiteRows
from unpooled.runtime.agreement import Agreement
from unpooled.runtime.idempotent import IdempotentParty
from unpooled.runtime.party import PartyRuntime
from unpooled.runtime.serving import serving
from unpooled.types import PartyId, all_rows

_LOG = logging.getLogger(__name__)


def client_app(
    agreed: Agreed,
    load_data: Callable[[Context], Any],
    policy: str | Policy = "deployment",
) -> ClientApp:
    """A party as a ClientApp.

    ``load_data`` returns the site's table in any form that ``fit`` takes for one party, or a tuple
    of the table and its rows' weights; or, with names of rows and persons and columns that not
    every run uses, :class:`unpooled.privacy.SiteRows`. It is called for every question and must
    return the same.
    """
    app = ClientApp()

    @app.query(ACTION)
    def answer(message: Message, context: Context) -> Message:
        reply = _reply(message, context, agreed, load_data, policy)
        return Message(record(reply), reply_to=message)

    return app


def _reply(
    message: Message,
    context: Context,
    agreed: Agreed,
    load_data: Callable[[Context], Any],
    policy: str | Policy,
) -> PartyReply:
    """The party's reply, whatever happens: Flower would send the text of an exception."""
    number, name = -1, f"at node {context.node_id}"
    try:
        number, name = _party_identity(context)
        own = _site_policy(context.node_config, policy, name)
        agreement = agreement_of(agreed, context)
        question = question_of(message)
        _refuse_other_runs(question, agreement, number, name)
        own.preflight(RunRequest(name, (), n_parties=agreement.n_parties))
        _refuse_without_memory(own, name)
        asked = _asked(question, agreement, name)
        data = _party_data(load_data(context), name, agreement, own)
        party = IdempotentParty(
            PartyRuntime(agreement.protocol, data, (agreement.seed, number), own)
        )
        answer = _answer_to(question, asked, party, number, context)
    except (LedgerRefusal, ProtocolError, WireError) as error:
        _LOG.warning("Nothing is sent: %s", error)
        status = "outdated" if isinstance(error, Outdated) else "failed"
        if isinstance(error, PolicyRefusal):
            status = "refused"
        return PartyReply(number, name, status, text=str(error))
    except Exception as error:
        _LOG.exception("Nothing is sent.")
        text = f"Party {name} cannot answer ({type(error).__name__}); its own log says why."
        return PartyReply(number, name, "failed", text=text)
    if answer is None:
        return PartyReply(number, name, "withheld")
    return PartyReply(number, name, "answer", answer.data)


def _party_identity(context: Context) -> tuple[int, PartyId]:
    """The party's number and name."""
    number = context.node_config.get("partition-id")
    if type(number) is not int or number < 0:
        raise ProtocolError(
            f"The SuperNode of node {context.node_id} has partition-id={number!r} in its node "
            "config, which must be the party's number, from 0."
        )
    name = context.node_config.get("name", str(number))
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST:
        raise ProtocolError(
            f"Party {number} has name={name!r:.80} in its SuperNode's node config, which must be "
            "text."
        )
    return number, name


def _site_policy(config: UserConfig, given: str | Policy, name: PartyId) -> Policy:
    """The site's own policy, or the app's where the site gives none."""
    chosen = config.get("policy", given)
    if isinstance(chosen, str) and chosen in POLICIES:
        chosen = POLICIES[chosen]
    if isinstance(chosen, bool | int | float | str):
        raise ProtocolError(
            f"Party {name} has policy={chosen!r} in its SuperNode's node config or its app, which "
            f"is not known; give {' or '.join(map(repr, POLICIES))}."
        )
    policy, own = as_policy(chosen), dict[str, Any]()
    if "min-count" in config:
        own["min_count"] = config["min-count"]
    if "memory" in config:
        own |= {"memory": config["memory"], "one_party": True}
    try:
        return policy.with_own(**own) if own else policy
    except InputError as error:
        raise ProtocolError(f"In the node config of party {name}, {error}") from None


def _refuse_without_memory(policy: Policy, name: PartyId) -> None:
    """Whoever starts runs says which columns these have, and rows change in between: cells made
    anew for every run would give rows away."""
    if policy.min_count > 1 and policy.store(name) is None:
        raise PolicyRefusal(
            f"Party {name} takes no part, since its SuperNode's node config names no folder in "
            'which its cells are kept; have its owner add memory="FOLDER".'
        )


def _refuse_other_runs(
    question: Question, agreement: Agreement, number: int, name: PartyId
) -> None:
    if question.agreement != agreement.digest:
        raise ProtocolError(
            f"Party {name} means to take part in {agreement.protocol.name!r} with "
            f"{agreement.n_parties} parties and seed {agreement.seed}, but is asked in another run "
            "or with other parameters; start both sides with the same."
        )
    if number >= agreement.n_parties:
        raise ProtocolError(
            f"Party {name} has partition-id={number} in its SuperNode's node config, but there are "
            f"{agreement.n_parties} parties, numbered from 0; correct one of the two."
        )


def _asked(question: Question, agreement: Agreement, name: PartyId) -> Encoded:
    """The question, if it is as the protocol declares it."""
    ask = decode(question.question)
    declared = {release.kind: release for release in agreement.protocol.asks}
    wrong: str | None = "the protocol does not declare it"
    if isinstance(ask, Ask) and ask.kind in declared:
        wrong = misfit(declared[ask.kind], ask.body, agreement.n_columns)
    if wrong is not None:
        raise MalformedMessage(
            f"Party {name} does not answer {ask.kind!r} of round {ask.round}, since {wrong}; have "
            "both sides run the same version."
        )
    return Encoded(ask, question.question)


def _party_data(loaded: Any, name: PartyId, agreement: Agreement, policy: Policy) -> PartyData:
    """What the protocol is given of the party's rows, checked like those that ``fit`` takes."""
    columns = agreement.columns if isinstance(agreement.columns, tuple) else None
    site = loaded if isinstance(loaded, SiteRows) else None
    if site is None:
        table, weights = loaded if isinstance(loaded, tuple) else (loaded, None)
    else:
        chosen = site.columns if columns is None else columns
        missing = [column for column in chosen if column not in site.columns]
        if missing:
            raise InputError(f"The rows of party {name} have no column {missing[0]!r}.")
        table = np.asarray(site.rows)[:, [site.columns.index(column) for column in chosen]]
        weights = site.weights
    expected = Expected("unpooled", agreement.n_columns, columns)
    own = None if weights is None else {name: weights}
    data = read({name: table}, None, own, expected).parties[0]
    if site is None and columns is not None:
        site = SiteRows(columns, all_rows(data.rows), data.weights)
    needs_rows = agreement.protocol.needs_rows
    return policy.admitted(data, needs_rows=needs_rows, site=site, columns=columns)


def _answer_to(
    question: Question, asked: Encoded, party: IdempotentParty, number: int, context: Context
) -> Encoded | None:
    """The answer, after which Flower's state of this run and node has the party's memory."""
    key = f"{KEY}.{context.run_id}"
    kept = context.state.config_records.get(key, ConfigRecord()).get("memory")
    if isinstance(kept, bytes):
        party.remember(kept)
    if number >= len(question.answered) or party.answered < question.answered[number]:
        raise Outdated(
            f"Party {party.runtime.data.name} has lost its memory of this run, as it does when its "
            "SuperNode is restarted; begin a new run."
        )
    with serving() as serve:
        [answer] = serve(lambda own: own.answer(asked, question.exchange), [party])
    context.state[key] = ConfigRecord({"memory": party.memory})
    if party.runtime.data.remark:
        _LOG.warning("Party %s: %s.", party.runtime.data.name, party.runtime.data.remark)
    return answer  # type: ignore[no-any-return]
