"""The front door to DeepFeCA, and to the pooled DeepCluster that it is measured against."""

from __future__ import annotations

import copy
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import nn

from unpooled.checks import number, one_of, whole, whole_or_none
from unpooled.data.tables import Table
from unpooled.deep import vectors
from unpooled.deep.augmentation import AUGMENTATIONS, Augmentation
from unpooled.deep.checkpoint import Checkpoint
from unpooled.deep.encoders import ENCODERS
from unpooled.deep.images import Shape, flattened, shape_of
from unpooled.deep.protocol import IMAGE_SHAPE, MEAN, SCALE, WEIGHTS, DeepClustering
from unpooled.deep.training import HEADS, OPTIMIZERS, Training
from unpooled.errors import InputError
from unpooled.estimators.feca import FeCA
from unpooled.estimators.fuzzy import FuzzyCMeans
from unpooled.estimators.kfed import KFED
from unpooled.estimators.matched import MatchedAveraging
from unpooled.estimators.one_shot import OneShotKMeans
from unpooled.estimators.star import StarEstimator
from unpooled.kernels.assignment import centers
from unpooled.messages.message import Note
from unpooled.protocols.prepare.embedded import Embedded
from unpooled.protocols.star import one_shot as protocols
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.serving import serving
from unpooled.simulate import Run, run_star
from unpooled.simulate.options import Options
from unpooled.types import Array, Body, FloatArray, IntArray, Parties, PerRow

AGGREGATIONS: dict[str, StarEstimator] = {
    "feca": FeCA(n_init=3),
    "one-shot": OneShotKMeans(n_init=3),
    "matched": MatchedAveraging(n_init=3),
    "k-fed": KFED(n_init=3),
    "fuzzy-average": FuzzyCMeans(merge="average", max_rounds=1),
    "fuzzy-kmeans": FuzzyCMeans(merge="kmeans", max_rounds=1),
}
"""The paper's rows, and ours. Fewer starts than elsewhere, since there are many clusterings."""
BATCH_NORMS = ("pooled", "averaged")
_HISTORY = ("loss", "clusters")
_NAME = "DeepFeCA"
_LARGEST = 1e30
"""Networks calculate with half the digits: squares of larger values are no numbers there."""


class DeepFeCA(StarEstimator):
    """Learns features of unlabelled images together with clusters of them (Xu et al. 2024).

    In every round parties cluster their features by FeCA (or another ``aggregation``), train the
    network on the clusters as pseudo-labels, as DeepCluster-v2 does (Caron et al. 2020), and the
    coordinator averages their networks. See :mod:`unpooled.deep.protocol`, also for what is
    disclosed: parties send whole networks.

    ``X`` holds images: arrays (n, height, width) or (n, height, width, channels) with ``groups``,
    or one for each party in a list or dict; or tables with a row for each image.

    Parameters
    ----------
    n_clusters : int, default=10
        Number of clusters.
    aggregation : str or estimator, default="feca"
        How parties' centroids become common ones: "feca", "one-shot", "matched", "k-fed",
        "fuzzy-average", "fuzzy-kmeans", or any estimator of unpooled with a coordinator whose
        centres lie among the rows.
    encoder : str, callable or nn.Module, default="convnet"
        "convnet", "resnet18", a function that makes an ``nn.Module``, or such a module, which is
        trained on from where it stands; it makes (n, features) of (n, channels, height, width).
    n_prototypes : int or None, default=None
        Pseudo-labels in training; None: ``n_clusters``, as in the paper. More of them (three times)
        usually make better features.
    projection : int, default=0
        Dimension of a projection after the features in which images are clustered, as in
        DeepCluster-v2 (128); 0: they are clustered by the features themselves.
    rounds : int, default=20
        Rounds of clustering, training and averaging.
    epochs : int, default=1
        Of a party's training in a round.
    batch_size : int, default=32
        Images of a step of it.
    learning_rate : float, default=0.03
        At the beginning; it falls along a cosine over all rounds.
    optimizer : {"sgd", "lars"}, default="sgd"
        "lars" is DeepCluster-v2's, for large batches.
    momentum : float, default=0.9
        Of the optimizer.
    weight_decay : float, default=1e-4
        Of the optimizer.
    temperature : float, default=0.1
        Of the softmax over prototypes.
    head : {"trained", "fixed"}, default="trained"
        A linear classifier that begins with the prototypes, as in the paper, or the prototypes
        themselves, as in DeepCluster-v2.
    warmup : float, default=0.0
        The share of all rounds in which the learning rate rises.
    augmentation : {"natural", "signs"}, Augmentation or dict, default="natural"
        For photographs, for digits and letters, one's own, or what is different from the natural
        one.
    batch_norm : {"pooled", "averaged"}, default="pooled"
        Variances of all rows together, or plain FedAvg.
    participation : float, default=1.0
        The share of parties that train in a round.
    image_shape : (int, int, int) or None, default=None
        Channels, height and width where ``X`` is tables of rows; None: square, one channel.
    channels : {"last", "first"}, default="last"
        Where images have theirs.
    device : str, default="cpu"
        "cpu", "cuda", ...: where parties train, or "auto": on a GPU where there is one; results
        repeat exactly on a CPU.
    checkpoint : str, path or None, default=None
        A file that is written after every round, from which a fit with the same options, data and
        seed goes on (``traffic_`` is then that of the rest).
    quorum : int or None, default=None
        How many parties' answers are enough; None: all.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out.
    verbose : int, default=0
        Whether to print what is noted of every round.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, d)
        The centres, of unit length, where :meth:`embed` puts images.
    labels_ : array of shape (n,), or list, tuple or dict of these
        The cluster of each image, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances of embedded images to their nearest centre.
    network_ : dict of arrays
        The network's numbers, and the channels' scale.
    image_shape_ : (int, int, int)
        Channels, height and width.
    n_rounds_ : int
        Rounds of clustering, training and averaging.
    n_iter_ : int
        The same as ``n_rounds_``.
    history_ : dict of arrays
        For every round ``loss`` and ``clusters`` (prototypes found).
    traffic_ : Traffic
        What was sent: see :class:`unpooled.privacy.Traffic`.
    remarks_ : dict of lists
        What parties held back, and why.
    n_features_in_ : int
        Number of columns.
    """

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        aggregation: Any = "feca",
        encoder: Any = "convnet",
        n_prototypes: int | None = None,
        projection: int = 0,
        rounds: int = 20,
        epochs: int = 1,
        batch_size: int = 32,
        learning_rate: float = 0.03,
        optimizer: str = "sgd",
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        temperature: float = 0.1,
        head: str = "trained",
        warmup: float = 0.0,
        augmentation: Any = "natural",
        batch_norm: str = "pooled",
        participation: float = 1.0,
        image_shape: Any = None,
        channels: str = "last",
        device: str = "cpu",
        checkpoint: Any = None,
        quorum: int | None = None,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.aggregation = aggregation
        self.encoder = encoder
        self.n_prototypes = n_prototypes
        self.projection = projection
        self.rounds = rounds
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.temperature = temperature
        self.head = head
        self.warmup = warmup
        self.augmentation = augmentation
        self.batch_norm = batch_norm
        self.participation = participation
        self.image_shape = image_shape
        self.channels = channels
        self.device = device
        self.checkpoint = checkpoint
        self.quorum = quorum
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learns from the images of all parties without putting them together.

        Parameters
        ----------
        X : array, table, or list, tuple or dict of these
            Images, as :class:`DeepFeCA` takes them.
        y : None
            Ignored.
        groups : array of shape (n,) or str, default=None
            The party of each image of one array, or the name of a table's column that has it.
            Without it there is one party.
        sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
            A weight for each image, in the container of ``X``; None weighs all alike.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        rows, self._seen = flattened(X, self.channels)
        try:
            return super().fit(rows, groups=groups, sample_weight=sample_weight)
        finally:
            del self._seen

    def _protocol(self, n_clusters: int, parties: Parties) -> DeepClustering:
        prototypes = whole_or_none("n_prototypes", self.n_prototypes, 1) or n_clusters
        if prototypes < n_clusters:
            raise InputError(
                f"n_prototypes={prototypes} is less than n_clusters={n_clusters}; give at least as "
                "many, or None."
            )
        shape = shape_of(self.image_shape, getattr(self, "_seen", None), parties.n_features)
        inner = self._aggregation(prototypes, parties)
        return self._built(shape, inner, self._aggregation(n_clusters, parties))

    def _built(self, shape: Shape, inner: StarProtocol, final: StarProtocol) -> DeepClustering:
        protocol = DeepClustering(
            inner=inner,
            final=final,
            build=self._encoder(shape[0]),
            image_shape=shape,
            rounds=whole("rounds", self.rounds, 0),
            components=whole("projection", self.projection, 0),
            training=self._training(),
            augmentation=self._augmentation(),
            participation=number("participation", self.participation, above=0.0, most=1.0),
            batch_norm=one_of("batch_norm", self.batch_norm, BATCH_NORMS),
            device=_device(self.device),
        )
        try:
            protocol.n_weights  # noqa: B018 (makes the network, to see whether that works)
        except Exception as error:
            raise InputError(
                f"encoder={self.encoder!r} does not work with images of shape {shape}: {error}."
            ) from error
        return protocol

    def _aggregation(self, n_clusters: int, parties: Parties) -> StarProtocol:
        given = self.aggregation
        if isinstance(given, str):
            given = AGGREGATIONS[one_of("aggregation", given, tuple(AGGREGATIONS))]
        if not isinstance(given, StarEstimator) or isinstance(given, DeepFeCA):
            raise InputError(
                f"aggregation={given!r} is not known; give one of {', '.join(AGGREGATIONS)} or an "
                "estimator with a coordinator, such as FeCA()."
            )
        model: StarEstimator = clone(given).set_params(n_clusters=n_clusters)
        protocol = model._protocol(n_clusters, parties)
        if isinstance(protocol, Embedded):
            raise InputError(
                f"aggregation={given!r} finds centres in a space of its own, which the network "
                "cannot be trained for; give one that clusters rows as they are."
            )
        return protocol

    def _encoder(self, channels: int) -> Callable[[], nn.Module]:
        given = self.encoder
        if isinstance(given, nn.Module):
            return partial(copy.deepcopy, given)
        if isinstance(given, str):
            return partial(ENCODERS[one_of("encoder", given, tuple(ENCODERS))], channels)
        if callable(given):
            return given  # type: ignore[no-any-return]
        raise InputError(
            f"encoder={given!r} is not known; give {' or '.join(map(repr, ENCODERS))}, a torch "
            "module, or a function that makes one."
        )

    def _training(self) -> Training:
        return Training(
            epochs=whole("epochs", self.epochs, 1),
            batch_size=whole("batch_size", self.batch_size, 2),
            learning_rate=number("learning_rate", self.learning_rate, above=0.0),
            optimizer=one_of("optimizer", self.optimizer, OPTIMIZERS),
            momentum=number("momentum", self.momentum, most=1.0),
            weight_decay=number("weight_decay", self.weight_decay),
            temperature=number("temperature", self.temperature, above=0.0),
            head=one_of("head", self.head, HEADS),
            warmup=number("warmup", self.warmup, most=0.99),
        )

    def _augmentation(self) -> Augmentation:
        if isinstance(self.augmentation, Augmentation):
            return self.augmentation
        if isinstance(self.augmentation, Mapping):
            return Augmentation.of(self.augmentation)
        return AUGMENTATIONS[one_of("augmentation", self.augmentation, tuple(AUGMENTATIONS))]

    def _run(
        self, protocol: StarProtocol, parties: Parties, seed: int, how: Options, history: Any
    ) -> Run:
        assert isinstance(protocol, DeepClustering)
        _refuse_what_ends_late(protocol, parties, how)
        how = replace(how, quorum=whole_or_none("quorum", self.quorum, 1))
        kept: dict[str, list[Array]] = {}
        file = None
        if self.checkpoint is not None:
            if self.random_state is None:
                raise InputError(
                    "checkpoint is given but random_state is not: no later fit would have the same "
                    "seed; give one."
                )
            options = repr([seed, _described(self.get_params()), parties.names])
            file = Checkpoint(self.checkpoint, options, parties)
            start = file.read()
            if start is not None:
                protocol = replace(protocol, start=start)
                for name in _HISTORY:
                    kept[name] = list(start[f"history.{name}"])
                for loss, found in zip(kept["loss"], kept["clusters"], strict=True):
                    history.record(Note(0, {"loss": loss, "clusters": found}))
        progress = _Progress(protocol.rounds)

        def observe(note: Note) -> None:
            seen = {name: note.body[name] for name in _HISTORY}
            history.record(Note(note.round, seen))
            progress.show(note.round + 1, float(note.body["loss"]))
            for name, value in seen.items():
                kept.setdefault(name, []).append(value)
            if file is not None:
                past = {f"history.{name}": np.array(values) for name, values in kept.items()}
                state = {name: value for name, value in note.body.items() if name not in seen}
                file.write({**state, **past})

        try:
            run = run_star(protocol, parties, seed=seed, options=how, observe=observe)
        finally:
            progress.end()
        if protocol.rounds and np.isnan([float(loss) for loss in kept["loss"]]).all():
            warnings.warn(
                f"{_NAME} has trained nothing: no party has two images or more that its policy "
                "lets it learn from.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return run

    def _n_rounds(self, run: Run) -> int:
        return int(run.result["rounds"])

    def _keep_embedding(self, result: Body) -> None:
        self.network_ = {name: np.array(result[name]) for name in (WEIGHTS, MEAN, SCALE)}
        if IMAGE_SHAPE in result:
            channels, height, width = map(int, result[IMAGE_SHAPE])
            self.image_shape_ = channels, height, width
        else:  # at a party, which has it from the plan
            self.image_shape_ = shape_of(self.image_shape, None, self.n_features_in_)

    def _keep(self, result: Body) -> None:
        self.n_iter_ = int(result["rounds"])

    def _read_new(self, X: Any, groups: Any = None, sample_weight: Any = None) -> Table:
        check_is_fitted(self, "n_features_in_")
        rows, seen = flattened(X, self.channels)
        if seen is not None and seen != self.image_shape_:
            raise InputError(
                f"The images are {seen} (channels, height, width), but those that {_NAME} was "
                f"fitted on are {self.image_shape_}; resize them, or see channels."
            )
        return super()._read_new(rows, groups, sample_weight)

    def embed(self, X: Any) -> PerRow[FloatArray]:
        """The images as points of the unit sphere, on which ``cluster_centers_`` lie.

        Parameters
        ----------
        X : array, table, or list, tuple or dict of these
            Images, as :class:`DeepFeCA` takes them.

        Returns
        -------
        points : array of shape (n, d), or list, tuple or dict of these
            In the container of ``X``.
        """
        table = self._read_new(X)
        return table.restore(self._embedded(table.parties.rows))

    def features(self, X: Any) -> PerRow[FloatArray]:
        """What the encoder makes of images, before any projection: for other models to use.

        Parameters
        ----------
        X : array, table, or list, tuple or dict of these
            Images, as :class:`DeepFeCA` takes them.

        Returns
        -------
        features : array of shape (n, d), or list, tuple or dict of these
            In the container of ``X``.
        """
        table = self._read_new(X)
        return table.restore(self._features(table.parties.rows))

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder, of its own; it takes images with channels at mean 0 and scale 1."""
        network = copy.deepcopy(self._fitted.template)
        vectors.from_vector(network, self.network_[WEIGHTS])
        return network.encoder.eval()

    @property
    def _fitted(self) -> DeepClustering:
        """The protocol as far as it embeds images, for which nobody is asked anything."""
        unasked = protocols.OneShotKMeans(1, 1)
        return self._built(self.image_shape_, unasked, unasked)

    def _embedded(self, rows: FloatArray) -> FloatArray:
        with serving():  # so that it is rounded as in the run
            return self._fitted.embed(rows, self.network_)

    def _features(self, rows: FloatArray) -> FloatArray:
        with serving():
            return self._fitted.features(rows, self.network_)

    def _for_drawing(
        self, X: Any, y: Any
    ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, Array | None]:
        """Of all images: rows, clusters, points, features, and classes if there are any."""
        table = self._read_new(X)
        rows = table.parties.rows
        points = self._embedded(rows)
        labels = centers.label(points, self.cluster_centers_)
        classes = None if y is None else table.per_row(y, "y")
        return rows, labels, points, self._features(rows), classes


def _refuse_what_ends_late(protocol: DeepClustering, parties: Parties, how: Options) -> None:
    """Refuses, before a long fit, what would end it: values too large, policies that allow less."""
    largest = float(np.abs(parties.rows).max(initial=0.0))
    if largest > _LARGEST:
        raise InputError(
            f"X has the value {largest:g}, but images take values up to {_LARGEST:g}; scale them."
        )
    numbers = protocol.rounds * protocol.n_weights
    how.preflight(parties.names, protocol.releases, total_floats=numbers)


class DeepCluster(DeepFeCA):
    """The pooled reference: the same training where all images are in one place.

    Clusters are those of plain k-means; everything else is as in :class:`DeepFeCA`.
    """

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learns from one array of images; parties, if there are any, are put together.

        Parameters
        ----------
        X : array, table, or list, tuple or dict of these
            Images, as :class:`DeepFeCA` takes them.
        y : None
            Ignored.
        groups : None
            Ignored.
        sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
            A weight for each image, in the container of ``X``; None weighs all alike.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if sample_weight is not None:
            sample_weight = _together(sample_weight, 1)
        return super().fit(_together(X, 2), sample_weight=sample_weight)

    def _aggregation(self, n_clusters: int, parties: Parties) -> StarProtocol:
        return OneShotKMeans(n_clusters, n_init=3)._protocol(n_clusters, parties)


def _together(parts: Any, least: int) -> Any:
    """One array of what parties have."""
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    several = isinstance(parts, list | tuple) and all(np.ndim(part) >= least for part in parts)
    return np.concatenate(parts) if several else parts


class _Progress:
    """One live line on a terminal, nothing in a pipe."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._begin, self._first = rounds, monotonic(), 0
        self._live = sys.stderr.isatty()

    def show(self, done: int, loss: float) -> None:
        """After a round."""
        if not self._live:
            return
        self._first = self._first or done
        passed = monotonic() - self._begin
        left = passed / (done - self._first + 1) * (self._rounds - done)
        share = done / self._rounds
        bar = ("█" * round(20 * share)).ljust(20, "·")
        sys.stderr.write(
            f"\r\x1b[K{bar} round {done} of {self._rounds}, loss {loss:.3f}, {left:.0f} s left"
        )
        sys.stderr.flush()

    def end(self) -> None:
        """After the last one."""
        if self._live and self._first:
            sys.stderr.write("\n")


def _device(given: Any) -> str:
    if isinstance(given, str) and given == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(given)
        torch.empty(0, device=found)
    except Exception as error:
        raise InputError(
            f"device={given!r} is not here ({type(error).__name__}); give 'cpu', or 'cuda' where "
            "torch sees one."
        ) from None
    return str(found)


def _described(params: dict[str, Any]) -> list[tuple[str, str]]:
    """The options that a fit depends on, in words that another process would use too.

    Functions are known by their names, modules by what is in them.
    """
    apart = {"checkpoint", "device", "random_state", "verbose"}
    words = []
    for name, value in sorted(params.items()):
        if name in apart:
            continue
        if isinstance(value, nn.Module):
            value = [repr(value), vectors.to_vector(value).tobytes().hex()]
        words.append((name, re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))))
    return words
