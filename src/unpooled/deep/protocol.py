"""DeepFeCA: features and clusters learnt together, without pooling (Xu et al. 2024, section 5).

The coordinator draws a network, and then in every round:

1. **Clustering.** Parties get the network, turn their images into points on the unit sphere, and
   answer the questions of the protocol ``inner`` about these points: FeCA, or whatever is in its
   place. Its centres, brought to unit length, are the prototypes of the round. They may be more
   than the clusters that are wanted in the end.
2. **Training.** Parties get network and prototypes, label each of their images by the prototype of
   the largest cosine, and train the network to tell the labels apart (:mod:`.training`).
3. **Averaging.** θ ← Σ_m n_m θ_m / Σ_m n_m over the parties that answered, n_m their rows (or the
   weight of these); what becomes of batch normalisations' statistics is in :mod:`.vectors`.

After the last round the images are clustered once more, by ``final``, whose centres are the
result. At the very beginning parties tell sums and sums of squares of each channel, so that all
bring their images to the same scale.

A party needs nothing that it has missed: every question carries the network. What it answers
follows from the question, its rows and the run's seed. So a party that is away for a round is
missing from that round's mean and from nothing else, and a run that is begun again after round t,
from what was noted of it (``start``), goes on bit for bit as if nothing had happened.

With ``participation`` below 1 that share of the parties that have answered in a round, drawn anew
each time, train in it; all are clustered, which is cheap.

What leaves a party: for each clustering what ``inner`` sends, with images' places on the sphere as
rows; and once a round the whole network, which it has trained on all of its rows. **A network says
more of rows than sums do**: from updates after few steps on few images, images have been recovered
(Zhu, Liu & Han 2019; Geiping et al. 2020), and no count of rows bounds this. It is declared as
a sum over all rows of the party, which is what its policy can check (that they are enough).

A party whose policy has a minimum count of m puts its images, once, into groups of at least m by
their pixels (k-means with n / 2m clusters; images of smaller ones are left out of the clustering),
and whatever it is asked about clusters, it answers about groups: the mean point of each stands for
its images. So everything that it ever says of single clusters is about the same atoms.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unpooled.deep import vectors
from unpooled.deep.augmentation import NATURAL, Augmentation
from unpooled.deep.encoders import Network, width_of
from unpooled.deep.training import Training, train
from unpooled.deep.working import working
from unpooled.errors import ProtocolError
from unpooled.kernels.linalg.products import lengths, matmul
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.kernels.lloyd.kmeans import renumbered
from unpooled.messages.aggregate import Aggregate
from unpooled.messages.message import Ask, Note, Summary
from unpooled.messages.release import FINITE, AtMost, Release
from unpooled.privacy.row_groups import enough_rows
from unpooled.protocols.prepare.embedded import Embedded, Finding
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.protocols.star.shared.centroids import groups
from unpooled.types import (
    Array,
    Body,
    FloatArray,
    IntArray,
    PartyData,
    PartyId,
    all_rows,
    take_rows,
)

WEIGHTS, MEAN, SCALE = "deep.weights", "deep.mean", "deep.scale"
_CLUSTERING, _GROUPS, _POINTS = "deep.clustering", "deep.groups", "deep.points"
IMAGE_SHAPE, ROUNDS_DONE = "image_shape", "rounds_done"
_INNER = "inner."
_FORWARD_ROWS = 256
"""Images that are turned into features at a time."""


@dataclass(frozen=True, eq=False)
class DeepClustering(Embedded):
    """The protocol.

    ``inner`` finds the prototypes of every round, ``final`` the clusters in the end: the same
    method with at most as many centres. ``build`` makes an encoder, from torch's own random
    numbers. ``start`` is what was noted after a round, to go on from there.
    """

    inner: StarProtocol
    final: StarProtocol
    build: Callable[[], nn.Module]
    image_shape: tuple[int, int, int]
    rounds: int = 10
    components: int = 64
    training: Training = field(default_factory=Training)
    augmentation: Augmentation = NATURAL
    participation: float = 1.0
    batch_norm: str = "pooled"
    device: str = "cpu"
    start: Body | None = None
    name: ClassVar[str] = "deep clustering"

    @cached_property
    def template(self) -> Network:
        """A network of the right form; nothing that is random about it matters."""
        return self._drawn(0)

    @cached_property
    def draws(self) -> bool:
        """Whether the network draws random numbers in training (dropout): seen by trying."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            before = torch.default_generator.get_state()
            copy.deepcopy(self.template).train()(torch.zeros(4, *self.image_shape))
            return not torch.equal(torch.default_generator.get_state(), before)

    def _drawn(self, seed: int) -> Network:
        """A new network, without touching the process's own random numbers."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            encoder = self.build()
            network = Network(encoder, width_of(encoder, self.image_shape), self.components)
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    @property
    def n_components(self) -> int:  # type: ignore[override]
        """The dimension of the sphere's space."""
        return self.template.components

    @cached_property
    def n_weights(self) -> int:
        """How many numbers the network has."""
        return vectors.count(self.template)

    @property
    def parameters(self) -> Release:
        channels = (self.image_shape[0],)
        return Release(
            "model",
            (WEIGHTS, MEAN, SCALE, _CLUSTERING),
            ("model",),
            "the network, the channels' scale, and how many clusterings came before",
            shapes={
                WEIGHTS: (self.n_weights,),
                MEAN: channels,
                SCALE: channels,
                _CLUSTERING: (),
            },
            types={WEIGHTS: vectors.WEIGHTS, _CLUSTERING: "int64"},
        )

    @property
    def finding(self) -> tuple[tuple[Release, ...], tuple[Release, ...], Mapping[str, Step]]:
        channels, found = (self.image_shape[0],), AtMost(np.inf, "prototypes")
        releases = (
            Release(
                "pixels",
                ("count", "sums", "squares"),
                ("sums", "counts"),
                "sums over all rows: their number, each channel's values and their squares",
                shapes={"count": (), "sums": channels, "squares": channels},
                bounds={"squares": FINITE},
            ),
            Release(
                "train",
                ("weights", "count", "loss"),
                ("sums", "counts"),
                "the network after training on all rows, their number, and the mean loss",
                # One network, or none.
                shapes={"weights": (AtMost(1), self.n_weights), "count": (), "loss": ()},
                types={"weights": vectors.WEIGHTS},
            ),
        )
        parameters = self.parameters
        asks = (
            Release("pixels", (), ("model",), "nothing but the question"),
            replace(
                parameters,
                kind="train",
                fields=(*parameters.fields, "prototypes", "chosen", "span"),
                why="the network, the channels' scale, the prototypes, and who is to train",
                shapes={
                    **parameters.shapes,
                    "prototypes": (found, self.n_components),
                    "chosen": (AtMost(np.inf),),
                    "span": (2,),
                },
                types={**parameters.types, "chosen": "int64"},
            ),
        )
        return releases, asks, {"pixels": self.pixels, "train": self.train}

    # The coordinator's side.

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        parameters, kept = yield from self.find(rng)
        centers, _ = yield from self._clustering(parameters, rng)
        return {"centers": centers, **parameters, **kept}

    @property
    def _facts(self) -> dict[str, Array]:
        """What else a result has, for those who use the network."""
        return {"rounds": np.array(self.rounds), IMAGE_SHAPE: np.array(self.image_shape)}

    def find(self, rng: np.random.Generator) -> Finding:
        """All rounds; returns the network."""
        seed = int(rng.integers(2**62))  # what a later round draws must not hang on earlier ones
        if self.start is None:
            replies = yield Ask("pixels")
            parameters: dict[str, Array] = {
                WEIGHTS: vectors.to_vector(self._drawn(seed)),
                **_scale(replies),
            }
            begin = 0
        else:
            parameters = {name: self.start[name] for name in (WEIGHTS, MEAN, SCALE)}
            begin = int(self.start[ROUNDS_DONE])
        for number in range(begin, self.rounds):
            drawn = np.random.default_rng([seed, number])
            parameters = {**parameters, _CLUSTERING: np.array(number)}
            prototypes, present = yield from self._clustering(parameters, drawn)
            replies = yield Ask(
                "train",
                {
                    **parameters,
                    "prototypes": prototypes,
                    "chosen": self._chosen(present, drawn),
                    "span": np.array([number, number + 1]) / self.rounds,
                },
                number,
            )
            parameters[WEIGHTS], loss = self._averaged(replies, parameters[WEIGHTS])
            noted = {"loss": np.array(loss), "clusters": np.array(len(prototypes))}
            yield Note(number, {**noted, ROUNDS_DONE: np.array(number + 1), **parameters})
        return {**parameters, _CLUSTERING: np.array(self.rounds)}, self._facts

    def _clustering(
        self, parameters: Body, rng: np.random.Generator
    ) -> Generator[Ask | Note, Mapping[PartyId, Body], tuple[FloatArray, tuple[PartyId, ...]]]:
        """The centres that ``inner`` finds with this network, of unit length; and who answered.

        Each clustering has its own range of rounds, so that no two questions have the same name.
        """
        inner = self._clusterer(parameters).coordinator(rng)
        first = int(parameters[_CLUSTERING]) * _ROUNDS_OF_INNER
        replies: Any = None
        present: tuple[PartyId, ...] = ()
        while True:
            try:
                said = inner.send(replies)
            except StopIteration as end:
                centers: FloatArray = end.value["centers"]
                break
            replies = None
            if isinstance(said, Ask):
                body = {**said.body, **parameters}
                replies = yield replace(said, body=body, round=first + said.round)
                present = replies.parties if isinstance(replies, Aggregate) else tuple(replies)
        length = lengths(centers)[:, None]
        return centers / np.maximum(length, 1e-12), present

    def _clusterer(self, parameters: Body) -> StarProtocol:
        return self.final if parameters[_CLUSTERING] == self.rounds else self.inner

    def _chosen(self, present: tuple[PartyId, ...], rng: np.random.Generator) -> IntArray:
        """The numbers of those who are to train; none stands for all, also for who comes now."""
        if self.participation == 1:
            return np.empty(0, dtype=np.int64)
        count = max(1, round(self.participation * len(present)))
        places = np.sort(rng.choice(len(present), count, replace=False))
        return np.array([_number(present[i]) for i in places], dtype=np.int64)

    def _averaged(
        self, replies: Mapping[PartyId, Body], before: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float]:
        """The network of all who trained, and their loss; as before if nobody did."""
        said = replies.values()
        trained = [reply for reply in said if len(reply["weights"]) and reply["count"] > 0]
        if not trained:
            return before, np.nan
        counts = np.array([float(reply["count"]) for reply in trained])
        losses = np.array([float(reply["loss"]) for reply in trained])
        sent = [reply["weights"][0] for reply in trained]
        mean = vectors.averaged(self.template, sent, counts, self.batch_norm)
        return mean, float(np.average(losses, weights=counts))

    # The party's side.

    def pixels(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Sums of all channels."""
        channels = self.image_shape[0]
        if not enough_rows(data.weights, data.min_count):
            nothing = {"count": np.array(0.0), "sums": np.zeros(channels)}
            return Summary({**nothing, "squares": np.zeros(channels)}, _nobody(data)), {}
        pixels = all_rows(data.rows).reshape(len(data.rows), channels, -1)
        per_image = pixels.mean(axis=2, dtype=np.float64)
        squares = np.square(pixels, dtype=np.float64).mean(axis=2)
        reply = {
            "count": np.array(data.weights.sum()),
            "sums": matmul(data.weights, per_image),
            "squares": matmul(data.weights, squares),
        }
        return Summary(reply, _everybody(data)), {}

    def train(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Trains on all own images, if it is this party's turn."""
        there = np.flatnonzero(data.weights > 0)
        chosen = not len(body["chosen"]) or _number(data.name) in body["chosen"]
        if not chosen or len(there) < 2 or not enough_rows(data.weights, data.min_count):
            no_network = np.empty((0, self.n_weights), np.float32)
            nothing = {"weights": no_network, "count": np.array(0.0)}
            return Summary({**nothing, "loss": np.array(0.0)}, _nobody(data)), state
        seed = int(rng.integers(2**62))
        with working(self.draws, seed):
            network, scaling = self._network(body)
            images = self._images(take_rows(data.rows, there))
            prototypes = torch.from_numpy(body["prototypes"].astype(np.float32)).to(self.device)
            points = torch.from_numpy(self._known_points(data, state, body)[there]).to(images)
            labels = (points @ prototypes.T).argmax(dim=1)
            weights = data.weights[there] / data.weights[there].mean()
            loss = train(
                network,
                images,
                labels,
                None if (weights == 1).all() else torch.from_numpy(weights).to(images),
                prototypes,
                scaling,
                self.training,
                self.augmentation,
                (float(body["span"][0]), float(body["span"][1])),
                torch.Generator().manual_seed(seed),
            )
            trained = vectors.to_vector(network)
        if not np.isfinite(trained).all():
            raise ProtocolError(
                f"The network of party {data.name} has numbers that are not finite after training; "
                f"lower learning_rate (it is {self.training.learning_rate:g})."
            )
        reply = {
            "weights": trained[None],
            "count": np.array(data.weights.sum()),
            "loss": np.array(loss),
        }
        return Summary(reply, _everybody(data)), state

    def embed(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """The images' places on the unit sphere."""
        with working(self.draws, 0):
            network, scaling = self._network(parameters)
            return self._in_parts(network, rows, scaling)

    def features(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """The encoder's features, before any projection."""
        with working(self.draws, 0):
            network, scaling = self._network(parameters)
            return self._in_parts(network.features, rows, scaling)

    def _known_points(self, data: PartyData, state: Body, body: Body) -> FloatArray:
        """The images' places, if need be found again: the same, either way."""
        if _POINTS in state and state[_CLUSTERING] == body[_CLUSTERING]:
            return state[_POINTS]
        return self.embed(all_rows(data.rows), body)

    def _network(self, parameters: Body) -> tuple[Network, tuple[Tensor, Tensor]]:
        """The network that was sent, set to evaluation, and the channels' mean and scale."""
        network = copy.deepcopy(self.template)
        vectors.from_vector(network, parameters[WEIGHTS])
        mean, scale = (
            torch.from_numpy(parameters[name].astype(np.float32)).to(self.device)
            for name in (MEAN, SCALE)
        )
        return network.to(self.device).eval(), (mean, scale)

    def _in_parts(
        self,
        call: Callable[[Tensor], Tensor],
        rows: FloatArray,
        scaling: tuple[Tensor, Tensor],
    ) -> FloatArray:
        """What the network makes of images as they are, some at a time."""
        mean, scale = (part.view(1, -1, 1, 1) for part in scaling)
        starts = range(0, max(len(rows), 1), _FORWARD_ROWS)
        with torch.inference_mode():
            parts = [
                call((self._images(rows[start : start + _FORWARD_ROWS]) - mean) / scale).cpu()
                for start in starts
            ]
            return torch.cat(parts).numpy().astype(np.float64)

    def _images(self, rows: FloatArray) -> Tensor:
        shaped = rows.reshape(len(rows), *self.image_shape).astype(np.float32)
        return torch.from_numpy(shaped).to(self.device)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {
            **self.finding[2],
            **{kind: partial(self._about_points, kind) for kind in self.inner.steps},
        }

    def _about_points(
        self, kind: str, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The step of ``inner`` (or ``final``) about the images' places on the sphere.

        What a party remembers of it is about one clustering.
        """
        parameters = self.parameters.fields
        rest = {name: value for name, value in body.items() if name not in parameters}
        own: dict[str, Any] = {}
        if _CLUSTERING in state and state[_CLUSTERING] == body[_CLUSTERING]:
            own = {n.removeprefix(_INNER): v for n, v in state.items() if n.startswith(_INNER)}
        points = self._known_points(data, state, body)
        kept = {_CLUSTERING: body[_CLUSTERING], _POINTS: points}
        step = self._clusterer(body).steps[kind]
        if data.min_count <= 1:
            said, after = step(replace(data, rows=points), own, rest, rng)
        else:
            kept[_GROUPS] = state[_GROUPS] if _GROUPS in state else _grouped(data)
            said, after = step(_means(data, points, kept[_GROUPS]), own, rest, rng)
            said = _about_rows(said, kept[_GROUPS])
        return said, {**kept, **{_INNER + name: value for name, value in after.items()}}


_ROUNDS_OF_INNER = 10_000
"""More than any clustering takes."""


def _scale(replies: Mapping[PartyId, Body]) -> dict[str, FloatArray]:
    """Mean and standard deviation of every channel, of all parties' images."""
    replies = {name: reply for name, reply in replies.items() if reply["count"] > 0}
    count = sum(float(reply["count"]) for reply in replies.values())
    if not replies:
        raise ProtocolError(
            "No party has as many images as its policy's minimum count; have the minimum lowered."
        )
    mean = np.sum([reply["sums"] for reply in replies.values()], axis=0) / count
    squares = np.sum([reply["squares"] for reply in replies.values()], axis=0) / count
    spread = np.sqrt(np.maximum(squares - np.square(mean), 0.0))
    # What is less is the rounding of a channel that is the same everywhere.
    return {MEAN: mean, SCALE: np.where(spread > 1e-6 * np.sqrt(squares), spread, 1.0)}


def _grouped(data: PartyData) -> IntArray:
    """For every row its group, of at least ``min_count`` rows; -1 if it is in none.

    It follows from the rows alone, so that a party that has forgotten it finds the same.
    """
    found, kept = groups(data, np.random.default_rng(len(data.rows)))
    return renumbered(found.labels, kept)


def _means(data: PartyData, points: FloatArray, groups: IntArray) -> PartyData:
    """The groups' mean points as rows, their weight as weights."""
    n_groups = int(groups.max(initial=-1)) + 1
    inside = groups >= 0  # there may be no group at all
    sums, weights = sums_by_label(points[inside], data.weights[inside], groups[inside], n_groups)
    return replace(data, rows=sums / weights[:, None], weights=weights, min_count=1)


def _about_rows(said: Body | Summary, groups: IntArray) -> Body | Summary:
    """The answer about groups, with the groups its rows are summed up in."""
    if not isinstance(said, Summary) or said.row_groups is None:
        return said
    row_groups = np.append(said.row_groups, -1)[groups]
    return replace(said, row_groups=row_groups.astype(np.int64))


def _everybody(data: PartyData) -> IntArray:
    return np.zeros(len(data.rows), dtype=np.int64)


def _nobody(data: PartyData) -> IntArray:
    return np.full(len(data.rows), -1, dtype=np.int64)


def _number(name: PartyId) -> int:
    """A number that stands for a party's name."""
    return int.from_bytes(sha256(name.encode()).digest()[:7])
