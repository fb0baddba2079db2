"""A fitted network with clusters, applied to images: points, features, labels and distances.

It calculates new images' points in the same way as a party does in the run, one thread and the same
batches, so that the labels of a fit's own images are the same when they are predicted again.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import nn

from unpooled.data.tables import Table
from unpooled.deep import vectors
from unpooled.deep.images import ImageShape, flattened, shape_of
from unpooled.deep.inference import Inference
from unpooled.deep.protocol import IMAGE_SHAPE
from unpooled.deep.releases import CHANNEL_MEAN, CHANNEL_SCALE, WEIGHTS
from unpooled.errors import InputError
from unpooled.estimators.star import StarEstimator
from unpooled.kernels.assignment import centers
from unpooled.runtime.serving import serving
from unpooled.types import Array, Body, FloatArray, IntArray, PerRow


class ImageModel(StarEstimator):
    """What :class:`DeepFeCA` does with images once it is fitted."""

    channels: str
    image_shape: Any

    @abstractmethod
    def _inference(self, shape: ImageShape) -> Inference:
        """The network's form, for images of this shape."""

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
        network = copy.deepcopy(self._inference(self.image_shape_).template)
        vectors.from_vector(network, self.network_[WEIGHTS])
        return network.encoder.eval()

    def _keep_embedding(self, result: Body) -> None:
        self.network_ = {
            name: np.array(result[name]) for name in (WEIGHTS, CHANNEL_MEAN, CHANNEL_SCALE)
        }
        if IMAGE_SHAPE in result:
            channels, height, width = map(int, result[IMAGE_SHAPE])
            self.image_shape_ = channels, height, width
        else:  # at a party, which has it from the plan
            self.image_shape_ = shape_of(self.image_shape, None, self.n_features_in_)

    def _read_new(self, X: Any, groups: Any = None, sample_weight: Any = None) -> Table:
        check_is_fitted(self, "n_features_in_")
        rows, seen = flattened(X, self.channels)
        if seen is not None and seen != self.image_shape_:
            raise InputError(
                f"The images are {seen} (channels, height, width), but those that DeepFeCA was "
                f"fitted on are {self.image_shape_}; resize them, or see channels."
            )
        return super()._read_new(rows, groups, sample_weight)

    def _embedded(self, rows: FloatArray) -> FloatArray:
        with serving():  # so that it is rounded as in the run
            return self._inference(self.image_shape_).embed(rows, self.network_)

    def _features(self, rows: FloatArray) -> FloatArray:
        with serving():
            return self._inference(self.image_shape_).features(rows, self.network_)

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
