"""A party as Flower's ClientApp: what it answers, refuses, remembers, and never says."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapters.flower_wires import (
    AGREED,
    TABLES,
    WEIGHTS,
    Node,
    flower,
    load,
    question,
)
from tests.cells import cells_of
from tests.conformance.toys import Mean
from unpooled.adapters.flower import (
    Agreement,
    client_app,
)
from unpooled.adapters.flower.envelope import (
    KEY,
    MESSAGE_TYPE,
    PartyReply,
    Question,
    party_reply_of,
    record,
)
from unpooled.messages.codec import decode, encode
from unpooled.messages.message import Ask, Reply
from unpooled.privacy.cells import make_cells
from unpooled.privacy.policy import Deployment, Policy, ReleaseRequest
from unpooled.privacy.site_rows import SiteRows
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans

# isort: split
from flwr.app import ConfigRecord, Context, Message, RecordDict, UserConfig

__all__ = ["flower"]
pytestmark = pytest.mark.usefixtures("flower")


def said(node: Node, content: RecordDict) -> PartyReply:
    message = Message(content, 5, MESSAGE_TYPE)
    message.metadata.__dict__["_message_id"] = "one"
    return party_reply_of(node.answer(message))


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, str]:
    """A node config that names a folder for cells."""
    return {"memory": str(tmp_path / "memory")}


def west(app_policy: str | Policy = "study", agreed: Agreement = AGREED, **config: Any) -> Node:
    return Node(client_app(agreed, load, app_policy), {"partition-id": 0, "name": "West", **config})


def test_a_question_again_gets_the_same_bytes() -> None:
    node = west()
    first = said(node, question())
    kept = node.context.state
    assert first.status == "answer"
    assert (first.number, first.party) == (0, "West")
    assert said(node, question()) == first
    assert node.context.state == kept
    assert said(node, question(1, known=1)).status == "answer"


def test_another_question_under_the_same_name_is_refused() -> None:
    node = west()
    said(node, question())
    word = said(node, question(shift=1.0))
    assert word.status == "failed"
    assert "West has answered 'sums' of round 0 before" in word.text
    assert word.answer == b""


def test_runs_do_not_share_a_memory() -> None:
    node = west()
    first = said(node, question())
    node.context.run_id += 1
    assert said(node, question(shift=1.0)).status == "answer"
    node.context.run_id -= 1
    assert said(node, question()) == first


@pytest.mark.parametrize(
    "other",
    [
        replace(AGREED, seed=6),
        replace(AGREED, n_parties=4),
        replace(AGREED, protocol=FeCA(3, 3)),
        replace(AGREED, columns=("x", "y")),
    ],
)
def test_another_run_is_refused(other: Agreement) -> None:
    word = said(west(), question(agreed=other))
    assert word.status == "failed"
    assert "'mean' with 3 parties and seed 5, but is asked in another run" in word.text


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({KEY: ConfigRecord({"question": b"hello"})}),
        record(PartyReply(0, "West", "answer")),
        question(question=b""),
        question(question=b"hello"),
        question(question=encode(Reply("sums", {"shift": np.zeros(2)}))),
        question(exchange=1.5),
        question(answered=["many"] * 3),
        question(agreement=3),
    ],
)
def test_what_is_no_question_is_refused(content: RecordDict) -> None:
    node = west()
    word = said(node, content)
    assert word.status == "failed"
    assert word.text.endswith(".")
    assert not node.context.state


def test_a_question_that_is_not_as_declared_is_refused() -> None:
    unknown = encode(Ask("secrets", {"shift": np.zeros(2)}))
    assert "does not declare it" in said(west(), question(question=unknown)).text
    unknown = encode(Ask("sums", {"secret": np.zeros(2)}))
    assert "field 'secret' is not declared" in said(west(), question(question=unknown)).text
    agreed = Agreement(FederatedKMeans(np.zeros((3, 2))), 3, 2, 5)
    for centers, words in (
        (np.zeros((3, 1)), r"has shape \(3, 1\)"),
        (np.full((3, 2), np.nan), "NaN"),
    ):
        asked = encode(Ask("sums", {"centers": centers}))
        word = said(west(agreed=agreed), question(agreed=agreed, question=asked))
        assert re.search(words, word.text)
        assert word.status == "failed"


@pytest.mark.filterwarnings("ignore:invalid value")
def test_nothing_of_an_exception_leaves(caplog: pytest.LogCaptureFixture) -> None:
    def broken(context: Context) -> Any:
        raise ValueError("could not convert 'Jane Doe, 3.14' to float")

    def not_finite(context: Context) -> Any:
        return np.array([[1e300, 2.0]] * 20)

    for wrong, kind in ((broken, "ValueError"), (not_finite, "InputError")):
        node = Node(client_app(AGREED, wrong, "study"), {"partition-id": 0, "name": "West"})
        word = said(node, question())
        assert word.text == f"Party West cannot answer ({kind}); its own log says why."
        assert word.status == "failed"
    assert "Jane Doe" in caplog.text
    assert "1e+300" in caplog.text


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"partition-id": "0"}, "partition-id='0'"),
        ({"partition-id": -1}, "partition-id=-1"),
        ({"partition-id": True}, "partition-id=True"),
        ({}, "partition-id=None"),
        ({"partition-id": 3, "name": "South"}, "South has partition-id=3.* there are 3 parties"),
        ({"partition-id": 0, "name": 3}, "name=3"),
        ({"partition-id": 0, "name": ""}, "name=''"),
        ({"partition-id": 0, "policy": "open"}, "policy='open'"),
        ({"partition-id": 0, "policy": 3}, "policy=3"),
        ({"partition-id": 0, "min-count": 2}, "min_count=2"),
        ({"partition-id": 0, "min-count": "many"}, "min_count='many'"),
    ],
)
def test_a_node_config_that_makes_no_sense_is_refused(config: UserConfig, words: str) -> None:
    word = said(Node(client_app(AGREED, load), config), question())
    assert word.status == "failed"
    assert re.search(words, word.text)
    assert word.text.endswith(".")


class Counting:
    """A policy that is neither of ours."""

    def review(self, request: ReleaseRequest) -> Any:
        return None if request.round == 0 else request.body


def test_the_site_has_the_last_word_on_what_leaves(tmp_path: Path) -> None:
    feca, number = Agreement(FeCA(3, 3), 3, 2, 5), count()
    asked = record(Question(feca.digest, 0, [0] * 3, encode(Ask("centroids", {}))))

    def kept() -> dict[str, Any]:
        return {"memory": str(tmp_path / str(next(number)))}

    def centroids(app_policy: str | Policy, **config: Any) -> int:
        word = said(west(app_policy, feca, **config), asked)
        return len(decode(word.answer).body["centroids"])

    assert centroids("deployment", **kept()) == 3
    assert centroids("study", policy="deployment", **kept()) == 3
    # Of 60 rows, one cell has 31 or more.
    assert centroids("deployment", **kept(), **{"min-count": 31}) == 1
    assert centroids(Deployment(max_rounds=1), **kept(), **{"min-count": 31}) == 1
    assert centroids("study", **kept(), **{"min-count": 31}) == 1
    assert centroids(Deployment(min_count=31), policy="study") == 3
    assert said(west(Deployment(max_floats=1), **kept()), question()).status == "refused"
    assert said(west("study"), question()).status == "answer"
    assert said(west("deployment", **kept()), question()).status == "answer"
    refused = said(west(Deployment(kinds=("moments",)), **kept()), question())
    assert refused.status == "refused"
    assert "West does not send 'sums'" in refused.text
    odd = said(west(Counting(), **{"min-count": 5}), question())
    assert "min_count=5 goes with the deployment policy only" in odd.text


def test_under_deployment_what_leaves_is_of_cells(kept: dict[str, str]) -> None:
    answered = decode(said(west("deployment", **kept), question()).answer).body
    cells = cells_of(TABLES[0], 10, WEIGHTS[0])
    total = (cells.weights[:, None] * cells.means).sum(axis=0)
    assert np.array_equal(answered["total"], total)
    assert answered["count"].tolist() == [cells.weights.sum()]


def test_a_run_of_two_is_refused() -> None:
    two = Agreement(Mean(), 2, 2, 5)
    word = said(west("deployment", two), question(agreed=two, known=0))
    assert word.status == "refused"
    assert "West takes no part in a run of 2, fewer than its least of 3" in word.text


def test_what_was_held_back_is_in_the_site_s_log(
    caplog: pytest.LogCaptureFixture, kept: dict[str, str]
) -> None:
    feca = Agreement(FeCA(3, 3), 3, 2, 5)
    asked = record(Question(feca.digest, 0, [0] * 3, encode(Ask("centroids", {}))))
    word = said(west("deployment", feca, **kept, **{"min-count": 61}), asked)
    assert "Party West: takes no part: its 60 rows do not make a cell of 61" in caplog.text
    assert word.text == ""
    assert len(decode(word.answer).body["centroids"]) == 0


def test_without_a_memory_a_site_takes_no_part() -> None:
    """Its rows could be told apart where they change between runs, or columns do."""
    word = said(west("deployment"), question())
    assert word.status == "refused"
    assert re.search('West takes no part, .* have its owner add memory="FOLDER"', word.text)


def test_cells_are_of_the_columns_that_the_site_names(kept: dict[str, str]) -> None:
    """Whichever of them a run uses; persons are counted, not their rows."""
    table = np.column_stack([TABLES[0], TABLES[0][:, 0] ** 2])
    persons = [str(i // 2) for i in range(len(table))]
    site = SiteRows(("a", "b", "c"), table, WEIGHTS[0], persons=persons)
    cells = make_cells(table, WEIGHTS[0], 10, np.arange(len(table)) // 2)
    for columns, places in ((("a", "b"), [0, 1]), (("c", "a"), [2, 0])):
        agreed = Agreement(Mean(), 3, columns, 5)
        node = Node(client_app(agreed, lambda context: site), {"partition-id": 0, **kept})
        answered = decode(said(node, question(agreed=agreed)).answer).body
        total = (cells.weights[:, None] * cells.means).sum(axis=0)[places]
        np.testing.assert_allclose(answered["total"], total, rtol=1e-12)
    agreed = Agreement(Mean(), 3, ("a", "d"), 5)
    node = Node(client_app(agreed, lambda context: site), {"partition-id": 0, **kept})
    assert said(node, question(agreed=agreed)).status == "failed"


def test_other_columns_than_those_of_the_cells_are_refused(
    kept: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    for columns, status in ((("a", "b"), "answer"), (("a", "c"), "failed")):
        agreed = Agreement(Mean(), 3, columns, 5)
        node = Node(client_app(agreed, load), {"partition-id": 0, **kept})
        assert said(node, question(agreed=agreed)).status == status
    assert "have no column 'b', of which its cells are made" in caplog.text


def test_a_site_keeps_its_cells(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    word = said(west("deployment", memory=str(tmp_path / "memory")), question())
    assert word.status == "answer"
    assert (tmp_path / "memory" / "cells.log").exists()
    shutil.rmtree(tmp_path / "memory")
    (tmp_path / "memory").write_text("no folder")
    word = said(west("deployment", memory=str(tmp_path / "memory")), question())
    assert word.status == "failed"
    assert str(tmp_path) not in word.text
    assert "cannot be used (File exists), so nothing was released" in caplog.text


def test_what_a_policy_withholds_is_said_to_be_withheld() -> None:
    node = west(Counting())
    assert said(node, question(0)) == PartyReply(0, "West", "withheld")
    assert said(node, question(1)).status == "answer"


def test_a_party_that_lost_its_memory_takes_no_further_part() -> None:
    node = west()
    said(node, question(0))
    assert said(node, question(1, known=1)).status == "answer"
    node.context.state = RecordDict()
    word = said(node, question(2, known=2))
    assert word.status == "outdated"
    assert "West has lost its memory" in word.text


def test_other_rows_than_at_the_beginning_are_refused() -> None:
    tables = iter([TABLES[0], TABLES[0][::-1]])
    node = Node(client_app(AGREED, lambda context: next(tables), "study"), {"partition-id": 0})
    assert said(node, question(0)).status == "answer"
    assert "rows of party 0 are not those" in said(node, question(1, known=1)).text


def test_columns_are_matched_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    agreed = replace(AGREED, columns=("x", "y"))

    def total(table: Any) -> Any:
        node = Node(client_app(agreed, lambda context: table, "study"), {"partition-id": 0})
        word = said(node, question(agreed=agreed))
        return word.text or decode(word.answer).body["total"].tolist()

    table = pandas.DataFrame(TABLES[0], columns=["x", "y"])
    assert total(table) == total(table[["y", "x"]]) == total(TABLES[0])
    assert "InputError" in total(table[["x"]])
    assert "InputError" in total(TABLES[0][:, :1])
