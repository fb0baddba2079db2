"""The estimator of DeepFeCA: features and clusters of images learnt together, without pooling.

Here are its options and its fit; what a fitted one does with images is in :mod:`.image_model`, and
the algorithm in :mod:`.protocol`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unpooled.checks import number, one_of, whole, whole_or_none
from unpooled.data.parties import Parties
from unpooled.deep import options
from unpooled.deep.checkpoint import Checkpoint, described_options
from unpooled.deep.image_model import ImageModel
from unpooled.deep.images import ImageShape, flattened, shape_of
from unpooled.deep.inference import Inference
from unpooled.deep.protocol import DeepClustering
from unpooled.deep.round_log import RoundLog
from unpooled.deep.training import HEADS, OPTIMIZERS, Training
from unpooled.errors import InputError
from unpooled.estimators.history import History
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import Run, run_star
from unpooled.simulate.options import Options
from unpooled.types import Body

_LARGEST_PIXEL = 1e30
"""Networks calculate in single precision, where squares of larger values overflow."""


class DeepFeCA(ImageModel):
    """Learns features of unlabelled images together with clusters of them (Xu et al. 2024).

    In every round parties cluster their features by FeCA (or another ``aggregation``), train the
    network on the clusters as pseudo-labels, as DeepCluster-v2 does (Caron et al. 2020), and the
    coordinator averages their networks. See :mod:`unpooled.deep.protocol`, also for what is
    disclosed: parties send whole networks.

    Compare it with :class:`unpooled.OneShotKMeans` on the raw pixels, which can be as good or
    better where parties differ much: on digits by Dirichlet(0.1) that has an NMI of 0.745, DeepFeCA
    0.585 ("feca") and 0.674 ("one-shot"), means of three runs.

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
        Which of their rows parties left out, and why.
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
        final = self._aggregation(n_clusters, parties)
        network = self._inference(shape)
        return DeepClustering(
            inner=inner,
            final=final,
            build=network.build,
            image_shape=shape,
            rounds=whole("rounds", self.rounds, 0),
            components=network.components,
            training=self._training(),
            augmentation=options.augmentation_of(self.augmentation),
            participation=number("participation", self.participation, above=0.0, most=1.0),
            batch_norm=one_of("batch_norm", self.batch_norm, options.BATCH_NORMS),
            device=network.device,
        )

    def _aggregation(self, n_clusters: int, parties: Parties) -> StarProtocol:
        return options.aggregation_protocol(self.aggregation, n_clusters, parties)

    def _inference(self, shape: ImageShape) -> Inference:
        found = Inference(
            build=options.encoder_builder(self.encoder, shape[0]),
            image_shape=shape,
            components=whole("projection", self.projection, 0),
            device=options.device_name(self.device),
        )
        try:
            found.template  # noqa: B018 (makes the network, to see whether that works)
        except Exception as error:
            raise InputError(
                f"encoder={self.encoder!r} does not work with images of shape {shape}: {error}."
            ) from error
        return found

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

    def _run(
        self, protocol: StarProtocol, parties: Parties, seed: int, how: Options, history: History
    ) -> Run:
        assert isinstance(protocol, DeepClustering)
        _refuse_what_would_fail(protocol, parties, how)
        how = replace(how, quorum=whole_or_none("quorum", self.quorum, 1))
        log = RoundLog(history, protocol.rounds, self._checkpoint(parties, seed))
        start = log.resume()
        if start is not None:
            protocol = replace(protocol, start=start)
        try:
            run = run_star(protocol, parties, seed=seed, options=how, observe=log.observe)
        finally:
            log.end()
        if protocol.rounds and not log.trained:
            warnings.warn(
                "DeepFeCA has trained nothing: no party has two images or more that its policy "
                "lets it learn from.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return run

    def _checkpoint(self, parties: Parties, seed: int) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if self.random_state is None:
            raise InputError(
                "checkpoint is given but random_state is not: no later fit would have the same "
                "seed; give one."
            )
        options = repr([seed, described_options(self.get_params()), parties.names])
        return Checkpoint(self.checkpoint, options, parties)

    def _n_rounds(self, run: Run) -> int:
        return int(run.result["rounds"])

    def _keep(self, result: Body) -> None:
        self.n_iter_ = int(result["rounds"])


def _refuse_what_would_fail(protocol: DeepClustering, parties: Parties, how: Options) -> None:
    """Refuses, before a long fit, what would end it: values too large, policies that allow less."""
    largest = float(np.abs(parties.rows).max(initial=0.0))
    if largest > _LARGEST_PIXEL:
        raise InputError(
            f"X has the value {largest:g}, but images take values up to "
            f"{_LARGEST_PIXEL:g}; scale them."
        )
    numbers = protocol.rounds * protocol.n_weights
    how.preflight(parties.names, protocol.releases, total_floats=numbers)
