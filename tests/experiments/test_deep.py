"""The experiments of DeepFeCA at tiny size: they run, and report what they should."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import numpy as np
import pytest
import torch
from joblib import cpu_count

from tests.deep.plain import tiny
from tests.sentences import refuses
from unpooled.cli import main
from unpooled.data.parties import Parties
from unpooled.deep import ConvNet, DeepFeCA
from unpooled.experiments.deep import digits, paper, table_3
from unpooled.experiments.reproduction.registry import ENTRIES
from unpooled.experiments.reproduction.running import reproduce
from unpooled.experiments.reproduction.tasks import Results, Scale


@pytest.fixture
def small_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixty images of ten classes, each with a colour of its own."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 10
    noise = rng.integers(0, 60, (90, 32, 32, 3))
    X = (noise + 19 * y[:, None, None, None] * np.array([1, 0.5, 0])).astype(np.uint8)
    np.savez(tmp_path / "cifar10.npz", X=X, y=y, split=np.repeat([0, 1], [60, 30]))
    monkeypatch.setenv("UNPOOLED_DATA", str(tmp_path))
    return tmp_path


def test_the_papers_plan_says_what_the_paper_says() -> None:
    given = paper.read_paper_plan(paper.PAPER_PLAN)["parameters"]
    assert given["encoder"] == "resnet18"
    assert (given["rounds"], given["epochs"], given["batch_size"]) == (150, 5, 128)
    nobody = Parties.of([np.empty((0, 3072))] * 10)
    protocol = DeepFeCA(**given, image_shape=(3, 32, 32)).planned(nobody)
    assert protocol.n_weights > 11_000_000  # type: ignore[attr-defined]


@pytest.mark.long
def test_the_papers_plan_trains(
    small_cifar: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan itself, but for two rounds of one epoch on few images."""
    monkeypatch.chdir(small_cifar)
    text = paper.PAPER_PLAN.read_text()
    for old, new in (
        ("rounds = 150", "rounds = 2"),
        ("epochs = 5", "epochs = 1"),
        ("batch_size = 128", "batch_size = 8"),
        ("small = 6", "small = 1"),
        ("parties = 10", "parties = 2"),
        ("n_clusters = 10", "n_clusters = 3"),
        ("most = 0", "most = 2"),
    ):
        assert old in text
        text = text.replace(old, new)
    (small_cifar / "plan.toml").write_text(text)
    assert main(["reproduce", "deep-paper", "--runs", "2", "--plan", "plan.toml"]) == 0
    printed = capsys.readouterr().out
    assert "20 images; a core trains on" in printed
    assert "this will take about" in printed
    assert "it took" in printed
    assert "linear" in printed
    assert printed.count("it took") == 2
    assert int(np.load("deep-paper-0.npz")["rounds_done"]) == 2


class CountingNet(ConvNet):
    """Counts the images that pass it; one that is trained on counts three times."""

    passed = 0
    lock = Lock()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with self.lock:
            CountingNet.passed += len(images) * (3 if self.training else 1)
        return super().forward(images)


def test_estimates_are_near_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes by images: seconds depend on what else the machine does."""
    monkeypatch.setattr(CountingNet, "passed", 0)
    monkeypatch.setattr(paper, "perf_counter", lambda: float(CountingNet.passed))
    images = np.random.default_rng(0).integers(0, 256, (400, 32, 32, 3), dtype=np.uint8)
    model = DeepFeCA(3, encoder=lambda: CountingNet(3, 2), rounds=4, epochs=2, random_state=0)
    expected = paper.estimated_duration(model, images, 2).seconds * min(cpu_count(), 2)
    begin = CountingNet.passed
    model.fit(images, groups=np.arange(400) % 2)
    assert CountingNet.passed - begin == pytest.approx(expected, rel=0.2)


def test_plans_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refuses(lambda: paper.read_paper_plan(tmp_path / "none.toml"), "cannot be read")
    (tmp_path / "odd.toml").write_text(paper.PAPER_PLAN.read_text().replace("most =", "least ="))
    refuses(
        lambda: paper.read_paper_plan(tmp_path / "odd.toml"),
        "must have data, most, parameters",
    )
    assert main(["reproduce", "dgc-iris", "--plan", "x.toml"]) == 2
    assert "dgc-iris has no plan" in capsys.readouterr().err


def test_the_papers_table_3_is_complete() -> None:
    rows = {row for row in table_3.DEEP_ROWS.values() if row}
    for data, table in table_3.TABLE_3.items():
        assert data in table_3.IMAGE_SETS
        assert set(table) == rows
        assert {len(texts.split()) for texts in table.values()} == {3}
    assert table_3.TABLE_3["CIFAR-10"]["DeepFeCA"].split()[1] == "63.7"
    assert table_3.TABLE_3["Tiny-ImageNet"]["k-FED"].split()[2] == "23.4"


def test_models_of_table_3() -> None:
    images = table_3.IMAGE_SETS["CIFAR-10"]
    assert table_3.deep_model("k-FED", images).aggregation.local_clusters == 13
    assert table_3.deep_model("untrained", images).rounds == 0
    assert table_3.deep_model("DeepFeCA", images).n_prototypes == 128


def test_the_page_says_which_results_were_taken_over(
    small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale = Scale(2)
    keys = [task.key for task in table_3.tasks(scale)]
    assert len(keys) == 2 * (6 * 3 + 2)
    assert {key.split("/")[-1] for key in keys} == {"1", "2"}
    values = {key: {"linear": 40.0, "knn": 30.0, "nmi": 10.0} for key in keys}
    found = table_3.page(scale, Results(values, {}))
    assert "computed by this command" in found.conclusion
    values[keys[0]] = {**values[keys[0]], "taken_over": True}
    found = table_3.page(scale, Results(values, {}))
    assert "1 of 40 results were taken over" in found.conclusion
    notes = [part.note for part in found.parts if part.title == "CIFAR-100"]
    assert "cifar-100-binary" in notes[0]
    assert str(small_cifar) not in notes[0]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:DeepFeCA found:sklearn.exceptions.ConvergenceWarning")
def test_table_3_in_quick(small_cifar: Path, tmp_path: Path) -> None:
    page = reproduce(ENTRIES["deepfeca-table-3"], tmp_path / "out", quick=True, jobs=1)
    assert page.counts()["not printed"] == 2
    assert sum(page.counts().values()) == 5


@pytest.mark.long
def test_digits() -> None:
    lines = list(digits.report(1, encoder=tiny, rounds=1, epochs=1))
    assert sum(line.startswith("DeepFeCA, ") for line in lines) == 6
    assert sum(line.startswith("OneShotKMeans on raw pixels") for line in lines) == 3
