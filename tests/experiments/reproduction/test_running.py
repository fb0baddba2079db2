"""Tasks are run once, kept, and give the same files again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.stand_ins import write_stand_ins
from unpooled.errors import InputError
from unpooled.experiments.reproduction import running, store
from unpooled.experiments.reproduction.page import Cell, Page, Table
from unpooled.experiments.reproduction.registry import ENTRIES, OURS, Entry
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import Printed


def draw_number(seed: int, log: str) -> dict[str, Any]:
    """One task; it notes that it was run."""
    with Path(log).open("a") as stream:
        stream.write(f"{seed}\n")
    value = np.random.default_rng(seed).normal()
    return {"value": value, "curve": np.arange(3) * value, "seconds": 0.5}


def fail_at_two(seed: int, log: str) -> dict[str, Any]:
    if seed == 2:
        raise InputError("Party A has no rows; leave it out.")
    return draw_number(seed, log)


def numbers(log: Path, call: Any = draw_number) -> list[Task]:
    return [
        Task(f"numbers/normal/{seed}", call, {"seed": seed, "log": str(log)}) for seed in range(4)
    ]


def toy(log: Path) -> Experiment:
    def page(scale: Scale, results: Results) -> Page:
        ours = results.runs("numbers/normal", "value", scale.runs)
        return Page([Table("T", ("what",), [Cell(("mean",), Printed("0.0"), ours)], 3)], "Done.")

    def draw(scale: Scale, results: Results) -> Any:
        from unpooled.experiments.reproduction.drawing import line_style, panels

        figure, axes = panels(1)
        axes[0, 0].plot(results["numbers/normal/0"]["curve"], **line_style(0), label="a")
        axes[0, 0].legend()
        return figure

    return Experiment(
        "A toy", "Numbers.", 4, 2, lambda scale: numbers(log)[: scale.runs], page, draw
    )


class Toy(Entry):
    """An entry whose experiment is at hand."""

    def experiment(self) -> Experiment:
        return toy(Path(self.module))


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    return Toy("toy", OURS, "numbers", 1, str(tmp_path / "log"))


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_page_and_all_that_belongs_to_it(entry: Entry, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    running.reproduce(
        entry, tmp_path / "a", jobs=2, progress=lambda done, of: seen.append((done, of))
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert sorted(files_in(tmp_path / "a")) == [
        "runs/numbers.json",
        "runs/numbers.times.json",
        "toy.json",
        "toy.md",
        "toy.svg",
    ]
    text = (tmp_path / "a" / "toy.md").read_text()
    assert "unpooled reproduce toy\n" in text
    assert "Runs: 4; seeds: 0 to 3. Versions: unpooled " in text
    assert "![A toy](toy.svg)" in text
    kept = json.loads((tmp_path / "a" / "runs" / "numbers.json").read_text())
    value = np.random.default_rng(3).normal()
    assert kept["results"]["numbers/normal/3"] == {
        "value": value,
        "curve": (np.arange(3) * value).tolist(),
    }
    times = json.loads((tmp_path / "a" / "runs" / "numbers.times.json").read_text())
    assert times["numbers/normal/3"] == 0.5


def test_the_same_files_again_whatever_the_cores(entry: Entry, tmp_path: Path) -> None:
    for name, jobs in (("a", 1), ("b", 2)):
        running.reproduce(entry, tmp_path / name, jobs=jobs)
    assert files_in(tmp_path / "a") == files_in(tmp_path / "b")


def test_what_is_done_is_not_run_again(entry: Entry, tmp_path: Path) -> None:
    running.reproduce(entry, tmp_path / "a", runs=2, jobs=1)
    assert (tmp_path / "log").read_text().split() == ["0", "1"]
    running.reproduce(entry, tmp_path / "a", jobs=1)
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "3"]
    once = files_in(tmp_path / "a")
    running.reproduce(entry, tmp_path / "b", jobs=1)
    assert files_in(tmp_path / "b") == once
    running.start_again([entry], tmp_path / "a", quick=False, runs=None)
    running.reproduce(entry, tmp_path / "a", runs=1, jobs=1)
    assert (tmp_path / "log").read_text().split()[-1] == "0"


def test_what_was_done_before_a_failure_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(InputError, match="Party A"):
        running.compute(numbers(log, fail_at_two), tmp_path, quick=False, jobs=1)
    running.compute(numbers(log), tmp_path, quick=False, jobs=1)
    assert log.read_text().split() == ["0", "1", "2", "3"]


def test_a_kill_loses_no_more_than_the_line_that_was_being_written(tmp_path: Path) -> None:
    kept = store.Store(tmp_path, "numbers", quick=False)
    kept.add("numbers/normal/0", {"value": 1.0}, 0.1)
    partial = tmp_path / "runs" / "numbers.partial.jsonl"
    with partial.open("a") as stream:
        stream.write('["numbers/normal/1", {"val')
    again = store.Store(tmp_path, "numbers", quick=False)
    assert again.values == {"numbers/normal/0": {"value": 1.0}}
    again.add("numbers/normal/2", {"value": 2.0}, 0.1)
    assert len(store.Store(tmp_path, "numbers", quick=False).values) == 2
    again.close()
    assert not partial.exists()
    assert set(store.Store(tmp_path, "numbers", quick=False).values) == {
        "numbers/normal/0",
        "numbers/normal/2",
    }


def test_results_of_another_kind_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.compute(numbers(tmp_path / "log"), tmp_path, quick=True, jobs=1)
    with pytest.raises(InputError, match=r"of a quick run, and this is a full one: name another"):
        store.Store(tmp_path, "numbers", quick=False)
    monkeypatch.setattr(store, "versions", lambda deep: {"numpy": "1.0"})
    with pytest.raises(InputError, match=r"numpy.*start again \(--fresh\)"):
        store.Store(tmp_path, "numbers", quick=True)
    (tmp_path / "runs" / "numbers.json").write_text("{torn")
    with pytest.raises(InputError, match="cannot be read"):
        store.Store(tmp_path, "numbers", quick=True)


@pytest.mark.parametrize(
    "text", ["[1, 2]", "null", '{"quick": false}', "\xff", '{"quick": true, "results": []}']
)
def test_damaged_results_are_refused(text: str, tmp_path: Path) -> None:
    running.compute(numbers(tmp_path / "log"), tmp_path, quick=False, jobs=1)
    file = tmp_path / "runs" / "numbers.json"
    kept = json.loads(file.read_text())
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"numbers\.json .*(--fresh|--to)"):
        store.Store(tmp_path, "numbers", quick=False)
    file.write_text(json.dumps({**kept, "results": [1]}))
    with pytest.raises(InputError, match="cannot be read"):
        store.Store(tmp_path, "numbers", quick=False)


@pytest.mark.parametrize("line", ["5", "[[1], 2, 3]", "[", '"text"'])
def test_a_line_that_is_no_result_is_left_out(line: str, tmp_path: Path) -> None:
    store.Store(tmp_path, "numbers", quick=False).add("numbers/normal/0", 1.0, 0.1)
    with (tmp_path / "runs" / "numbers.partial.jsonl").open("a") as stream:
        stream.write(line + "\n")
    assert store.Store(tmp_path, "numbers", quick=False).values == {"numbers/normal/0": 1.0}


@pytest.mark.parametrize("text", ["", '{"quick": fal'])
def test_a_stop_in_the_first_line_loses_nothing(text: str, tmp_path: Path) -> None:
    running.compute(numbers(tmp_path / "log"), tmp_path, quick=False, jobs=1)
    partial = tmp_path / "runs" / "numbers.partial.jsonl"
    partial.write_text(text)
    assert len(store.Store(tmp_path, "numbers", quick=False).values) == 4
    assert not partial.exists()


def test_to_start_again_forgets_nothing_of_others(entry: Entry, tmp_path: Path) -> None:
    running.reproduce(entry, tmp_path, jobs=1)
    store_of = store.Store(tmp_path, "numbers", quick=False)
    store_of.add("numbers/of another page/0", 1.0, 0.1)
    store_of.close()
    running.start_again([entry], tmp_path, quick=False, runs=2)
    left = store.Store(tmp_path, "numbers", quick=False)
    assert sorted(left.values) == sorted(left.seconds)
    assert sorted(left.values) == [
        "numbers/normal/2",
        "numbers/normal/3",
        "numbers/of another page/0",
    ]
    with pytest.raises(InputError, match="full run, and this is a quick one"):
        running.start_again([entry], tmp_path, quick=True, runs=2)
    (tmp_path / "runs" / "numbers.json").write_text("{torn")
    running.start_again([entry], tmp_path, quick=False, runs=2)
    assert store.Store(tmp_path, "numbers", quick=False).values == {}


def test_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    first = store.alone_in(tmp_path)
    with first, pytest.raises(InputError, match="in use by another run"):
        store.alone_in(tmp_path).__enter__()
    with store.alone_in(tmp_path):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Nothing can be written"):
        store.alone_in(tmp_path / "file").__enter__()


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    kept = store.Store(tmp_path, "numbers", quick=False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        kept.add("numbers/x", float("nan"), 0.1)
    assert kept.values == {}


def test_a_task_that_is_named_twice_is_run_once(tmp_path: Path) -> None:
    running.compute(2 * numbers(tmp_path / "log"), tmp_path, quick=False, jobs=1)
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "3"]


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_stand_ins(folder)
    return folder


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_has_an_experiment(
    name: str, stand_ins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPOOLED_DATA", str(stand_ins))
    experiment = ENTRIES[name].experiment()
    tasks = experiment.tasks(Scale(experiment.quick_runs, quick=True))
    assert tasks
    once = {task.key: task for task in tasks}
    assert all(once[task.key] == task for task in tasks)
    assert os.fsencode("\n".join(once)).isascii()
