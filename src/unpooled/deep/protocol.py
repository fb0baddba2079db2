"""DeepFeCA: features and clusters learnt together, without pooling (Xu et al. 2024, section 5).

The coordinator draws a network, and then in every round:

1. **Clustering.** Parties get the network, turn their images into points on the unit sphere, and
   answer the questions of the protocol ``inner`` about these points: FeCA, or whatever is in its
   place. Its centres, brought to unit length, are the prototypes of the round. They may be more
   than the clusters that are wanted in the end.
2. **Training.** Parties get network and prototypes, label each of their images by the prototype of
   the largest cosine, and train the network to distinguish the labels (:mod:`.training`).
3. **Averaging.** θ ← Σ_m n_m θ_m / Σ_m n_m over the parties that answered, n_m their rows (or the
   weight of these); what becomes of batch normalisations' statistics is in :mod:`.vectors`.

After the last round the images are clustered once more, by ``final``, whose centres are the result.
At the very beginning parties send sums and sums of squares of each channel, so that all bring their
images to the same scale (:mod:`.channels`).

A party needs nothing that it has missed: every question carries the network. Its reply depends on
the question, its rows and the run's seed only. So a party that is down for a round is missing from
that round's mean and from nothing else, and a run that is resumed after round t, from what was
noted of it (``start``), continues bit for bit as if it had not been interrupted.

With ``participation`` below 1 that share of the parties that have answered in a round, drawn anew
each time, train in it; all are clustered, which is cheap.

What leaves a party: for each clustering what ``inner`` sends, with images' places on the sphere as
rows; and once a round the whole network, which it has trained on all of its rows. **A network
discloses more of rows than sums do**: from updates after few steps on few images, images have been
recovered (Zhu, Liu & Han 2019; Geiping et al. 2020), and no count of rows bounds this. So a policy
with a minimum count refuses this method, unless the party's owner allows "network-weights" by name.

Then a party's images are in cells all the same (:mod:`unpooled.privacy.cells`), by their pixels,
and its replies about clusters are about whole cells: the mean point of each stands for its images.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unpooled.data.parties import PartyData
from unpooled.deep import vectors
from unpooled.deep.augmentation import NATURAL, Augmentation
from unpooled.deep.channels import channel_scale, channel_sums
from unpooled.deep.encoders import Network
from unpooled.deep.inference import Inference
from unpooled.deep.releases import (
    CHANNEL_MEAN,
    CHANNEL_SCALE,
    CLUSTERING,
    WEIGHTS,
    coordinator_asks,
    network_release,
    party_releases,
)
from unpooled.deep.training import Training, train
from unpooled.deep.working import working
from unpooled.errors import ProtocolError
from unpooled.kernels.linalg.products import lengths
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.messages.aggregate import Aggregate
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import Release
from unpooled.protocols.prepare.then import Finding, Prepared
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Array, Body, FloatArray, IntArray, PartyId, all_rows, take_rows

IMAGE_SHAPE, ROUNDS_DONE = "image_shape", "rounds_done"
_POINTS, _OF_INNER = "deep.points", "inner."
_ROUNDS_OF_INNER = 10_000
"""More than any clustering takes."""


@dataclass(frozen=True, eq=False)
class DeepClustering(Prepared):
    """Rounds of clustering, training and averaging.

    ``inner`` finds the prototypes of every round, ``final`` the clusters in the end: the same
    method with at most as many centres. ``build`` makes an encoder, from torch's own random
    numbers. ``start`` is what was noted after a round, to resume from there.
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
    needs_rows: ClassVar[bool] = True

    @cached_property
    def inference(self) -> Inference:
        """The network in use."""
        return Inference(self.build, self.image_shape, self.components, self.device)

    @property
    def template(self) -> Network:
        """A network of the right form; its numbers are replaced by those that are sent."""
        return self.inference.template

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
        return network_release(self.n_weights, self.image_shape[0])

    @property
    def finding(self) -> tuple[tuple[Release, ...], tuple[Release, ...], Mapping[str, Step]]:
        releases = party_releases(self.n_weights, self.image_shape[0])
        asks = coordinator_asks(self.parameters, self.n_components)
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
        # Each round draws from its own generator, made from this seed and the round's number: a run
        # that is resumed in the middle then draws the same without replaying earlier rounds.
        seed = int(rng.integers(2**62))
        if self.start is None:
            replies = yield Ask("pixels")
            parameters: dict[str, Array] = {
                WEIGHTS: vectors.to_vector(self.inference.new_network(seed)),
                **channel_scale(replies),
            }
            begin = 0
        else:
            parameters = {name: self.start[name] for name in (WEIGHTS, CHANNEL_MEAN, CHANNEL_SCALE)}
            begin = int(self.start[ROUNDS_DONE])
        for number in range(begin, self.rounds):
            drawn = np.random.default_rng([seed, number])
            parameters = {**parameters, CLUSTERING: np.array(number)}
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
        return {**parameters, CLUSTERING: np.array(self.rounds)}, self._facts

    def _clustering(
        self, parameters: Body, rng: np.random.Generator
    ) -> Generator[Ask | Note, Any, tuple[FloatArray, tuple[PartyId, ...]]]:
        """The centres that ``inner`` finds with this network, of unit length; and who answered.

        Each clustering has its own range of rounds, so that no two questions have the same name.
        """
        inner = self._clusterer(parameters).coordinator(rng)
        first = int(parameters[CLUSTERING]) * _ROUNDS_OF_INNER
        replies: Any = None
        present: tuple[PartyId, ...] = ()
        while True:
            try:
                sent = inner.send(replies)
            except StopIteration as end:
                centers: FloatArray = end.value["centers"]
                break
            replies = None
            if isinstance(sent, Ask):  # notes of the inner protocol are dropped
                body = {**sent.body, **parameters}
                replies = yield replace(sent, body=body, round=first + sent.round)
                present = replies.parties if isinstance(replies, Aggregate) else tuple(replies)
        length = lengths(centers)[:, None]
        return centers / np.maximum(length, 1e-12), present

    def _clusterer(self, parameters: Body) -> StarProtocol:
        return self.final if parameters[CLUSTERING] == self.rounds else self.inner

    def _chosen(self, present: tuple[PartyId, ...], rng: np.random.Generator) -> IntArray:
        """The numbers of the parties that are to train; an empty array stands for all parties,
        also those that join after the clustering."""
        if self.participation == 1:
            return np.empty(0, dtype=np.int64)
        count = max(1, round(self.participation * len(present)))
        places = np.sort(rng.choice(len(present), count, replace=False))
        return np.array([_number(present[i]) for i in places], dtype=np.int64)

    def _averaged(
        self, replies: Mapping[PartyId, Body], before: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float]:
        """The network of all who trained, and their loss; as before if nobody did."""
        trained = [
            reply for reply in replies.values() if len(reply["weights"]) and reply["count"] > 0
        ]
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
        return channel_sums(data, self.image_shape[0]), {}

    def train(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Trains on all own images, if it is this party's turn."""
        there = np.flatnonzero(data.weights > 0)
        chosen = not len(body["chosen"]) or _number(data.name) in body["chosen"]
        if not chosen or len(there) < 2:
            no_network = np.empty((0, self.n_weights), np.float32)
            return {"weights": no_network, "count": np.array(0.0), "loss": np.array(0.0)}, state
        trained, loss = self._trained(data, there, state, body, int(rng.integers(2**62)))
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
        return reply, state

    def _trained(
        self, data: PartyData, there: IntArray, state: Body, body: Body, seed: int
    ) -> tuple[NDArray[np.float32], float]:
        """The network after training on the rows ``there``, and the loss."""
        with working(self.inference.draws, seed):
            network, scaling = self.inference.load(body)
            images = self.inference.images(take_rows(data.rows, there))
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
            return vectors.to_vector(network), loss

    def embed(self, rows: FloatArray, parameters: Body) -> FloatArray:
        return self.inference.embed(rows, parameters)

    def _known_points(self, data: PartyData, state: Body, body: Body) -> FloatArray:
        """The images' places; computed again, with the same result, where they are not kept."""
        if _POINTS in state and state[CLUSTERING] == body[CLUSTERING]:
            return state[_POINTS]
        return self.embed(all_rows(data.rows), body)

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

        What a party keeps of it is about one clustering; the next one begins without it.
        """
        parameters = self.parameters.fields
        rest = {name: value for name, value in body.items() if name not in parameters}
        own: dict[str, Any] = {}
        if CLUSTERING in state and state[CLUSTERING] == body[CLUSTERING]:
            own = {
                n.removeprefix(_OF_INNER): v for n, v in state.items() if n.startswith(_OF_INNER)
            }
        points = self._known_points(data, state, body)
        kept = {CLUSTERING: body[CLUSTERING], _POINTS: points}
        step = self._clusterer(body).steps[kind]
        reply, after = step(_clustered(data, points), own, rest, rng)
        return reply, {**kept, **{_OF_INNER + name: value for name, value in after.items()}}


def _clustered(data: PartyData, points: FloatArray) -> PartyData:
    """What is clustered: the images' places, or where there are cells the mean place of each."""
    if data.cells is None:
        return replace(data, rows=points)
    n_cells = int(data.cells.max(initial=-1)) + 1
    sums, weights = sums_by_label(points, data.weights, data.cells, n_cells)
    there = weights > 0
    return replace(data, rows=sums[there] / weights[there, None], weights=weights[there])


def _number(name: PartyId) -> int:
    """A number that stands for a party's name: messages carry arrays, and names are no numbers."""
    return int.from_bytes(sha256(name.encode()).digest()[:7])
