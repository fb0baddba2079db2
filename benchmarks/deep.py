"""What DeepFeCA's local step costs over a bare PyTorch loop, and what federation costs over that.

Throughput: a party's whole answer to "train" (weights unpacked, images labelled, views made, an
epoch of training, weights packed and checked) against a loop that does nothing but pass ready views
through the same network with the same batches and step by SGD. One thread each, by turns; images a
second as a ratio of medians, 1 being the bare loop's.

Federation: a fit of R rounds in one process, parties one after the other. What is not spent in
parties' steps (messages, ledgers, counting, aggregation of centroids, averaging of networks) over
what is spent in training. Beside it, what parties spend on features and their clusters, which a
pooled run would as well.

    python benchmarks/deep.py [--runs 5]
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from timing import by_turns, machine, seconds
from torch.nn import functional

from unpooled.data.parties import Parties, PartyData
from unpooled.deep import ConvNet, ResNet18
from unpooled.deep.augmentation import NATURAL
from unpooled.deep.protocol import DeepClustering
from unpooled.deep.training import Training
from unpooled.protocols.star.feca import FeCA
from unpooled.simulate import Options, run_star

CASES = {
    "ConvNet, width 24, batches of 64": (partial(ConvNet, 3, 24), 512, 64),
    "ConvNet, width 16, batches of 32": (partial(ConvNet, 3, 16), 512, 32),
    "ResNet-18, width 16, batches of 128": (partial(ResNet18, 3, 16), 256, 128),
}
PROTOTYPES = 30


def protocol(build: Any, batch: int) -> DeepClustering:
    inner = FeCA(PROTOTYPES, PROTOTYPES, n_init=3)
    training = Training(batch_size=batch)
    return DeepClustering(
        inner, FeCA(10, 10), build, (3, 32, 32), rounds=3, components=0, training=training
    )


def images(n: int) -> np.ndarray:
    return np.random.default_rng(0).random((n, 3 * 32 * 32))


class Local:
    """A party's step and the bare loop on the same images."""

    def __init__(self, build: Any, n: int, batch: int) -> None:
        self.protocol, self.batch = protocol(build, batch), batch
        self.data = PartyData("party", images(n), np.ones(n))
        asked: list[Any] = []
        parties = Parties.of([self.data.rows])
        watch = Options(watch=lambda who, said: asked.append(said))
        run_star(self.protocol, parties, options=watch)
        self.ask = next(said for said in asked if said.kind == "train")
        self.points = self.protocol.embed(self.data.rows, self.ask.body)

    def step(self) -> float:
        """The step, with the images' places known from the clustering before it."""
        state = {"deep.points": self.points, "deep.clustering": self.ask.body["deep.clustering"]}
        rng = np.random.default_rng(0)
        return seconds(lambda: self.protocol.train(self.data, state, self.ask.body, rng))

    def bare(self) -> float:
        """An epoch as short as can be written; views are made before the clock starts."""
        torch.set_num_threads(1)
        network = self.protocol.inference.new_network(0).train()
        pixels = torch.from_numpy(self.data.rows.astype(np.float32).reshape(-1, 3, 32, 32))
        scaling = torch.full((3,), 0.5), torch.full((3,), 0.3)
        parts = pixels.contiguous(memory_format=torch.channels_last).split(self.batch)
        rng = torch.Generator().manual_seed(0)
        views = [NATURAL.views(part, scaling, rng)[0] for part in parts]
        labels = [torch.randint(PROTOTYPES, (len(view),)) for view in views]
        head = torch.nn.Linear(network.components, PROTOTYPES, bias=False)
        optimizer = torch.optim.SGD(
            [*network.parameters(), *head.parameters()], lr=0.05, momentum=0.9, weight_decay=1e-4
        )

        def epoch() -> None:
            for view, label in zip(views, labels, strict=True):
                loss = functional.cross_entropy(head(network(view)) / 0.1, label)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()

        return seconds(epoch)


def federation(build: Any, n: int, batch: int) -> tuple[float, float, float]:
    """Seconds a round in training, in parties' other steps, and outside of parties."""
    made, spent = protocol(build, batch), {"train": 0.0, "other": 0.0}

    class Timed(DeepClustering):
        @property
        def steps(self) -> Any:
            return {kind: partial(timed, kind, step) for kind, step in super().steps.items()}

    def timed(kind: str, step: Any, *given: Any) -> Any:
        begin = perf_counter()
        said = step(*given)
        spent["train" if kind == "train" else "other"] += perf_counter() - begin
        return said

    run = Timed(**{f.name: getattr(made, f.name) for f in fields(made)})
    parties = Parties.of(np.array_split(images(4 * n), 4))
    whole = seconds(lambda: run_star(run, parties))
    outside = whole - spent["train"] - spent["other"]
    return tuple(value / made.rounds for value in (*spent.values(), outside))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    print(__doc__.split("\n\n    python")[0], machine({"torch": "PyTorch"}), sep="\n\n")
    heads = ("images/s over bare", "federation", "features, clusters")
    print("\n" + " " * 36 + "".join(f"{head:>20}" for head in heads), flush=True)
    for name, (build, n, batch) in CASES.items():
        local = Local(build, n, batch)
        local.step(), local.bare()
        ours, bare = by_turns(runs, local.step, local.bare)
        rounds = [federation(build, n, batch) for _ in range(2)]
        train, other, outside = np.min(rounds, axis=0)
        shares = f"{bare / ours:20.3f}{outside / train:20.4f}{other / train:20.3f}"
        print(f"{name:36}{shares}", flush=True)


if __name__ == "__main__":
    main()
