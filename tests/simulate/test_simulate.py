"""The in-process driver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from tests.cells import as_cells, cells_of
from tests.conformance.toys import Largest, Mean
from tests.protocols.mesh.test_dgc import blobs
from unpooled.data.parties import Parties
from unpooled.errors import InputError, PolicyRefusal, ProtocolError, UndeclaredRelease
from unpooled.graphs.reading import topology
from unpooled.messages.message import Ask, Note, Post
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Deployment, ReleaseRequest
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import Options, run_mesh, run_star
from unpooled.types import Body

ROWS, CORNERS = blobs()
PARTIES = Parties.of(ROWS)
RING = topology("ring", PARTIES.names)


def test_threads_change_nothing() -> None:
    protocol = DGC(InitialCenters(3), max_rounds=30)
    one, many = (
        run_mesh(protocol, PARTIES, RING, seed=3, blocks=5, options=Options(threads=threads))
        for threads in (1, 4)
    )
    assert np.array_equal(one.result["centers"], many.result["centers"])


def test_star_and_mesh_tell_their_observer_of_every_round() -> None:
    notes: list[Note] = []
    run_star(Mean(), PARTIES, observe=notes.append)
    assert [note.round for note in notes] == [0, 1]
    for blocks in (1, 3):
        notes.clear()
        protocol = DGC(InitialCenters(3), max_rounds=7, tol=0)
        run_mesh(protocol, PARTIES, RING, blocks=blocks, observe=notes.append)
        assert [note.round for note in notes] == list(range(7))
        assert notes[-1].body["centers"].shape == (5, 3, 2)


def test_star_counts_what_goes_up_and_down() -> None:
    traffic = run_star(Mean(), PARTIES).traffic
    assert traffic.rounds == 2
    assert traffic.messages == 10
    assert traffic.floats_up == 2 * 5 * 4
    assert traffic.floats_down == 2 * 5 * 2


def test_a_peer_cannot_change_what_its_neighbours_hear() -> None:
    class Vandal(Largest):
        def peer(self, block):  # type: ignore[no-untyped-def]
            heard = yield Post("size", 0, {"largest": np.ones((len(block), 1))})
            heard.everyone("largest")[:] = 9.0
            return {}

    with pytest.raises(ValueError, match="read-only"):
        run_mesh(Vandal(), PARTIES, RING)


def test_posts_must_have_one_entry_per_user() -> None:
    class Careless(Largest):
        def peer(self, block):  # type: ignore[no-untyped-def]
            yield Post("size", 0, {"largest": np.ones(len(block) + 1)})

    with pytest.raises(ProtocolError, match="one entry for each of the block's 5 users"):
        run_mesh(Careless(), PARTIES, RING)


def test_peers_must_stay_in_step() -> None:
    class Straggler(Largest):
        def peer(self, block):  # type: ignore[no-untyped-def]
            number = int(block.neighbourhood.users[0] > 0)
            yield Post("size", number, {"largest": np.ones((len(block), 1))})

    with pytest.raises(ProtocolError, match="different points"):
        run_mesh(Straggler(), PARTIES, RING, blocks=5)


def test_a_question_without_a_step_is_an_error() -> None:
    class Mute(Mean):
        steps = {}  # type: ignore[assignment]  # noqa: RUF012

    with pytest.raises(ProtocolError, match="no step for the question 'sums'"):
        run_star(Mute(), PARTIES)


@pytest.mark.parametrize("init", ["random", "k-means++", "dkm+c"])
def test_starts_that_send_rows_send_cells_under_deployment(init: str) -> None:
    protocol = DGC(InitialCenters(3, init), max_rounds=5)  # type: ignore[arg-type]
    sent: dict[str, np.ndarray] = {}

    def listen(who: str, message: object) -> None:
        if isinstance(message, Post) and "centers" in message.body:
            sent.setdefault(who, message.body["centers"].reshape(-1, 2))

    run_mesh(protocol, PARTIES, RING, blocks=5, options=Options(watch=listen))
    for i, name in enumerate(PARTIES.names):
        assert cdist(sent[name], np.asarray(PARTIES[i].rows)).min(axis=1).max() == 0.0
    sent.clear()
    run_mesh(protocol, PARTIES, RING, blocks=5, options=Options(policy=DEPLOYMENT, watch=listen))
    assert len(sent) == 5
    for i, name in enumerate(PARTIES.names):
        rows = np.asarray(PARTIES[i].rows)
        assert cdist(sent[name], rows).min() > 1e-9
        assert cdist(sent[name], cells_of(rows).means).min(axis=1).max() == 0.0


@pytest.mark.parametrize("init", ["random", CORNERS], ids=["drawn", "given"])
def test_a_mesh_under_deployment_is_one_of_cells(init: str | np.ndarray) -> None:
    protocol = DGC(InitialCenters(3, init), max_rounds=5)  # type: ignore[arg-type]
    on_cells = run_mesh(protocol, as_cells(PARTIES), RING).result["centers"]
    for blocks in (1, 5):
        run = run_mesh(protocol, PARTIES, RING, blocks=blocks, options=Options(policy=DEPLOYMENT))
        assert run.traffic.messages > 0
        assert np.array_equal(run.result["centers"], on_cells)


def test_a_star_under_deployment_is_one_of_cells() -> None:
    run = run_star(Mean(), PARTIES, options=Options(policy=DEPLOYMENT))
    on_cells = run_star(Mean(), as_cells(PARTIES))
    assert np.array_equal(run.result["mean"], on_cells.result["mean"])


def test_what_parties_leave_out_is_remarked() -> None:
    parties = Parties.of([ROWS[0][:5], *ROWS[1:4]], names=["West", "a", "b", "c"])
    policies = dict.fromkeys(parties.names, STUDY) | {"West": DEPLOYMENT}
    what = "takes no part: its 5 rows do not make a cell of 10 persons, its minimum count"
    run = run_star(Mean(), parties, options=Options(policy=policies))
    assert run.remarks == {"West": [what]}
    others = run_star(Mean(), parties.select(np.arange(1, 4)))
    assert np.array_equal(run.result["mean"], others.result["mean"])
    given = DGC(InitialCenters(3, CORNERS), max_rounds=5)
    ring = topology("ring", parties.names)
    mesh = run_mesh(given, parties, ring, blocks=4, options=Options(policy=policies))
    assert mesh.remarks == {"West": [what]}
    assert run_star(Mean(), PARTIES).remarks == {}


def test_a_run_of_too_few_parties_is_refused_before_anything_leaves() -> None:
    two = PARTIES.select(np.arange(2))
    said: list[object] = []
    options = Options(policy=DEPLOYMENT, watch=lambda who, message: said.append(message))
    few = "Party 0 takes no part in a run of 2, fewer than its least of 3 parties"
    with pytest.raises(PolicyRefusal, match=few):
        run_star(Mean(), two, options=options)
    with pytest.raises(PolicyRefusal, match=few):
        run_mesh(DGC(InitialCenters(3)), two, topology("ring", two.names), options=options)
    assert said == []
    run_star(Mean(), two, options=Options(policy=Deployment(least_parties=2)))
    one_cares = Options(policy={"0": STUDY, "1": DEPLOYMENT})
    with pytest.raises(PolicyRefusal, match="Party 1 takes no part"):
        run_star(Mean(), two, options=one_cares)


class Proud:
    """Answers the first question only."""

    def review(self, request: ReleaseRequest) -> Body | None:
        if request.round > 0:
            raise PolicyRefusal(f"Party {request.party} has said enough.")
        return request.body


class Asking(Mean):
    """Asks three times and needs four of five answers."""

    def coordinator(self, rng):  # type: ignore[no-untyped-def]
        counts = []
        for number in range(3):
            ask = Ask("sums", {"shift": np.zeros(2)}, number, quorum=4)
            replies = yield ask
            counts.append({name: float(reply["asked"][0]) for name, reply in replies.items()})
        return {
            "answers": np.array([len(c) for c in counts]),
            "asked": np.array([c["1"] for c in counts]),
        }


def test_every_party_has_a_policy_of_its_own_and_a_refusal_is_no_answer() -> None:
    policies = dict.fromkeys(PARTIES.names, STUDY) | {"3": Proud()}
    run = run_star(Asking(), PARTIES, options=Options(policy=policies))
    assert run.result["answers"].tolist() == [5, 4, 4]
    assert run.traffic.table["messages"].tolist() == [3, 3, 3, 1, 3]
    with pytest.raises(PolicyRefusal, match="Party 3 has said enough"):
        run_star(Mean(), PARTIES, options=Options(policy=policies))


def test_a_party_remembers_only_what_really_left() -> None:
    class Shy:
        def review(self, request: ReleaseRequest) -> Body | None:
            return None if request.round == 1 else request.body

    policies = dict.fromkeys(PARTIES.names, STUDY) | {"1": Shy()}

    class Tolerant(Asking):
        def coordinator(self, rng):  # type: ignore[no-untyped-def]
            asked = []
            for number in range(3):
                replies = yield Ask("sums", {"shift": np.zeros(2)}, number, quorum=4)
                asked.append(float(replies["1"]["asked"][0]) if "1" in replies else 0.0)
            return {"asked": np.array(asked)}

    run = run_star(Tolerant(), PARTIES, options=Options(policy=policies))
    assert run.result["asked"].tolist() == [1.0, 0.0, 2.0]


def test_a_withheld_post_is_silence() -> None:
    class Mute:
        def review(self, request: ReleaseRequest) -> Body | None:
            return None

    policies = dict.fromkeys(PARTIES.names, STUDY) | {"2": Mute()}
    protocol = DGC(InitialCenters(3, CORNERS), max_rounds=20, tol=0.0, step_size=0.05)
    run = run_mesh(protocol, PARTIES, RING, blocks=5, options=Options(policy=policies))
    assert run.traffic.table["messages"].tolist() == [40, 40, 0, 40, 40]
    assert run.traffic.table["bytes_down"][1] == run.traffic.table["bytes_down"][0] // 2


def test_a_coordinator_may_ask_only_what_is_declared() -> None:
    class Nosy(Mean):
        def coordinator(self, rng):  # type: ignore[no-untyped-def]
            replies = yield Ask("sums", {"shift": np.zeros(2)}, 0)
            yield Ask("sums", {"shift": np.zeros(2), "gossip": replies["0"]["total"]}, 1)

    with pytest.raises(UndeclaredRelease, match="coordinator wants to send field 'gossip'"):
        run_star(Nosy(), PARTIES)


def test_users_of_one_host_must_share_its_policy() -> None:
    policies = dict.fromkeys(PARTIES.names, STUDY) | {"3": DEPLOYMENT}
    protocol = DGC(InitialCenters(3), max_rounds=5)
    with pytest.raises(InputError, match="share a host but not a policy"):
        run_mesh(protocol, PARTIES, RING, options=Options(policy=policies))
    policies["3"] = Deployment(kinds=("centers",))
    with pytest.raises(PolicyRefusal, match="Party 3 does not send 'start'"):
        run_mesh(protocol, PARTIES, RING, blocks=5, options=Options(policy=policies))
    with pytest.raises(InputError, match="Party 1 has no policy"):
        run_mesh(protocol, PARTIES, RING, blocks=5, options=Options(policy={"0": STUDY}))


@pytest.mark.parametrize("blocks", [1, 5])
def test_when_everybody_withholds_everybody_is_alone(blocks: int) -> None:
    class Mute:
        def review(self, request: ReleaseRequest) -> Body | None:
            return None

    protocol = DGC(InitialCenters(3, CORNERS), max_rounds=20, tol=0.0, step_size=0.05)
    run = run_mesh(protocol, PARTIES, RING, blocks=blocks, options=Options(policy=Mute()))
    alone = run_mesh(protocol, PARTIES, topology(None, PARTIES.names))
    assert np.array_equal(run.result["centers"], alone.result["centers"])
    assert run.traffic.messages == 0


def test_a_policy_may_not_change_the_form_of_a_message() -> None:
    class Cutting:
        def review(self, request: ReleaseRequest) -> Body | None:
            return {name: value[:, :1] for name, value in request.body.items()}

    protocol = DGC(InitialCenters(3, CORNERS), max_rounds=5, tol=0.0, step_size=0.05)
    with pytest.raises(ProtocolError, match="gave field 'centers' of 'centers' another form"):
        run_mesh(protocol, PARTIES, RING, options=Options(policy=Cutting()))


def test_a_question_is_asked_once() -> None:
    class Again(Mean):
        def coordinator(self, rng):  # type: ignore[no-untyped-def]
            for _ in range(2):
                yield Ask("sums", {"shift": np.zeros(2)}, 0)

    with pytest.raises(ProtocolError, match="was asked before"):
        run_star(Again(), PARTIES)


def test_runs_that_make_no_sense_are_refused() -> None:
    protocol = DGC(InitialCenters(3), max_rounds=5)
    with pytest.raises(InputError, match="blocks=0"):
        run_mesh(protocol, PARTIES, RING, blocks=0)
    with pytest.raises(InputError, match="The topology has 3 users but there are 5 parties"):
        run_mesh(protocol, PARTIES, topology("ring", list("abc")))
    with pytest.raises(InputError, match="same name"):
        Parties.of(ROWS[:2], names=["a", "a"])
