"""A few kills in a star and in a mesh, drawn as :mod:`tests.network.chaos` draws its hundred."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.network.chaos import Disturbance, Outcome, chaos, ledgers, waits
from tests.network.chaos import kinds as all_kinds
from tests.network.hosts import Line, obstacle
from unpooled.network.storage.journal import JOURNAL, Journal
from unpooled.network.storage.ledger_file import LEDGER, LedgerFile


@pytest.mark.long
@pytest.mark.parametrize("kinds", [("fuzzy", "dgc"), ("gossip", "gossip-huber")], ids="-".join)
def test_what_was_killed_frozen_and_cut_off_comes_to_the_replayed_result(
    kinds: tuple[str, str], tmp_path: Path
) -> None:
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    outcomes = chaos(0, 6, tmp_path, only=kinds, at_once=3)
    assert sum(outcome.count("kill") for outcome in outcomes) >= 6
    assert not [sentence for outcome in outcomes for sentence in outcome.wrong]


# The checks find what they are for


def test_a_message_that_is_in_no_ledger_is_found(tmp_path: Path) -> None:
    programs = {name: SimpleNamespace(to=tmp_path / name) for name in ("N1", "N2")}
    for program in programs.values():
        program.to.mkdir()
    lines, journal = LedgerFile(tmp_path / "N1" / LEDGER), Journal(tmp_path / "N2" / JOURNAL)
    lines.append({"exchange": 0, "digest": sha256(b"said").hexdigest()})
    journal.append({"exchange": 0}, {"N1": b"said"})
    assert list(ledgers(programs)) == []
    journal.append({"exchange": 1}, {"N1": b"not said"})
    (wrong,) = ledgers(programs)
    assert "exchange" in wrong
    lines.close()
    journal.close()


def test_a_wait_beyond_patience_is_found_unless_the_program_was_frozen() -> None:
    kind = next(kind for kind in all_kinds(np.random.default_rng(0)) if kind.star)
    lines = [Line(0.0, {"event": "waiting"}), Line(100.0, {"event": "round"})]
    program = SimpleNamespace(lives=[lines], read=lambda: None)
    (wrong,) = waits(kind, {"coordinator": program}, Outcome(), clock=0.0)
    assert "100.0 s" in wrong
    frozen = Disturbance("freeze", 0, ("coordinator",), 95.0, began=1.0, over=96.0)
    outcome = Outcome(done=[frozen])
    assert list(waits(kind, {"coordinator": program}, outcome, clock=0.0)) == []
    assert outcome.longest == 5.0
