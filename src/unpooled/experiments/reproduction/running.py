"""Runs the tasks of an experiment on all cores and writes its page, figure and results."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from joblib import Parallel, cpu_count, delayed
from sklearn.exceptions import ConvergenceWarning

from unpooled.experiments.reproduction import drawing
from unpooled.experiments.reproduction.page import Page, counted
from unpooled.experiments.reproduction.registry import Entry
from unpooled.experiments.reproduction.store import Store, forget, plain, versions
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

Progress = Callable[[int, int], None]
"""Called with the number of tasks that are done, and of all."""


def reproduce(
    entry: Entry,
    folder: Path,
    *,
    runs: int | None = None,
    quick: bool = False,
    jobs: int | None = None,
    progress: Progress = lambda done, of: None,
) -> Page:
    """Runs what is not done yet, writes ``folder/NAME.md`` and what belongs to it."""
    experiment = entry.experiment()
    scale, tasks = _tasks(experiment, runs, quick)
    results = compute(tasks, folder, quick=quick, jobs=jobs, progress=progress)
    page = experiment.page(scale, results)
    figures: dict[str, Path] = {}
    if experiment.draw is not None:
        figures = drawing.drawn(experiment.draw, scale, results, folder / f"{entry.name}.svg")
    stores = dict.fromkeys(task.store for task in tasks)
    text = "\n".join(_lines(entry, experiment, scale, page, figures, list(stores))) + "\n"
    (folder / f"{entry.name}.md").write_text(text)
    for name, content in page.files.items():
        (folder / name).write_text(content)
    found = {"name": entry.name, "title": experiment.title, "runs": scale.runs, **page.as_json()}
    found |= {"quick": True} if quick else {}
    (folder / f"{entry.name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return page


def start_again(entries: Iterable[Entry], folder: Path, *, quick: bool, runs: int | None) -> None:
    """Forgets what these experiments have computed before."""
    keys: dict[str, set[str]] = {}
    for entry in entries:
        for task in _tasks(entry.experiment(), runs, quick)[1]:
            keys.setdefault(task.store, set()).add(task.key)
    for name, own in keys.items():
        forget(folder, name, own, quick=quick)


def _tasks(experiment: Experiment, runs: int | None, quick: bool) -> tuple[Scale, Sequence[Task]]:
    scale = Scale(runs or (experiment.quick_runs if quick else experiment.runs), quick)
    return scale, experiment.tasks(scale)


def compute(
    tasks: Sequence[Task],
    folder: Path,
    *,
    quick: bool,
    jobs: int | None = None,
    progress: Progress = lambda done, of: None,
) -> Results:
    """The results of all tasks: those that the folder has, and the others, computed now."""
    names = dict.fromkeys(task.store for task in tasks)
    stores = {name: Store(folder, name, quick=quick) for name in names}
    # Parts of an experiment may name the same task; it is run once.
    once = {task.key: task for task in tasks}
    missing = [task for key, task in once.items() if key not in stores[task.store].values]
    try:
        for count, (task, value, seconds) in enumerate(_results(missing, jobs), start=1):
            stores[task.store].add(task.key, value, seconds)
            progress(count, len(missing))
    finally:
        for store in stores.values():
            store.close()
    values = {key: value for store in stores.values() for key, value in store.values.items()}
    seconds_of = {key: value for store in stores.values() for key, value in store.seconds.items()}
    return Results(values, seconds_of)


def _results(tasks: Sequence[Task], jobs: int | None) -> Iterator[tuple[Task, Any, float]]:
    """As they get done. In this process if there is one core, or one task."""
    n_jobs = min(jobs or cpu_count(), len(tasks))
    if n_jobs <= 1:
        yield from (_timed(task) for task in tasks)
        return
    run = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from run(delayed(_timed)(task) for task in tasks)


def _timed(task: Task) -> tuple[Task, Any, float]:
    begin = perf_counter()
    with warnings.catch_warnings():
        # Fits that do not converge, or find fewer clusters, are what experiments are about.
        warnings.simplefilter("ignore", ConvergenceWarning)
        value = plain(task.call(**task.arguments))
    seconds = perf_counter() - begin
    if isinstance(value, dict) and "seconds" in value:
        seconds = value.pop("seconds")
    return task, value, seconds


def _lines(
    entry: Entry,
    experiment: Experiment,
    scale: Scale,
    page: Page,
    figures: Mapping[str, Path],
    stores: Sequence[str],
) -> Iterator[str]:
    command = f"unpooled reproduce {entry.name}" + (" --quick" if scale.quick else "")
    if scale.runs != (experiment.quick_runs if scale.quick else experiment.runs):
        command += f" --runs {scale.runs}"
    yield f"# {experiment.title}\n"
    yield f"{entry.paper.citation}\n"
    if scale.quick:
        yield "**A quick run, to see that all works: too little of everything for a verdict.**\n"
    yield f"{page.conclusion}\n"
    if counts := counted(page.counts()):
        yield f"Verdicts: {counts}.\n"
    for name, figure in figures.items():
        caption = page.caption if isinstance(page.caption, str) else page.caption[name]
        yield f"![{caption or experiment.title}]({figure.name})\n"
        if caption:
            yield f"*{caption}*\n"
    yield from page.lines()
    yield "## How it was made\n"
    yield f"{experiment.setting.strip()}\n"
    yield "```console"
    yield command
    yield "```\n"
    if entry.data:
        needed = ", ".join(f"`{name}.npz`" for name in entry.data)
        yield f"Data: {needed} in the folder that the environment variable UNPOOLED_DATA names.\n"
    used = ", ".join(f"{name} {number}" for name, number in versions(entry.deep).items())
    seeds = experiment.seeds.format(last=scale.runs - 1)
    files = ", ".join(f"[`runs/{name}.json`](runs/{name}.json)" for name in stores)
    yield f"Runs: {scale.runs}; seeds: {seeds}. Versions: {used}. Every run's numbers: {files}."
