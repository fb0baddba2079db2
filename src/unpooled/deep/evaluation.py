"""What features are worth, by labels that were not used to learn them.

Both take features of images with known classes, and of others to test on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def linear_accuracy(
    features: Any, y: Any, test_features: Any, test_y: Any, *, C: float = 1.0
) -> float:
    """Linear evaluation: the accuracy of a multinomial logistic regression on frozen features.

    Columns are standardised. (Papers train the same classifier by stochastic gradients; this one is
    trained to its optimum.)

    Parameters
    ----------
    features : array of shape (n, d)
        Of images with known classes.
    y : array of shape (n,)
        Their classes.
    test_features : array of shape (m, d)
        Of images to test on.
    test_y : array of shape (m,)
        Their classes.
    C : float, default=1.0
        The inverse weight of the ridge penalty.

    Returns
    -------
    accuracy : float
        From 0 to 1.
    """
    classifier = LogisticRegression(C=C, tol=1e-3, max_iter=1000)
    model = make_pipeline(StandardScaler(), classifier).fit(np.asarray(features), np.asarray(y))
    return float(model.score(np.asarray(test_features), np.asarray(test_y)))


def knn_accuracy(
    features: Any, y: Any, test_features: Any, test_y: Any, *, n_neighbors: int = 20
) -> float:
    """The accuracy of the nearest neighbours by cosine, the nearer counting more.

    Parameters
    ----------
    features : array of shape (n, d)
        Of images with known classes.
    y : array of shape (n,)
        Their classes.
    test_features : array of shape (m, d)
        Of images to test on.
    test_y : array of shape (m,)
        Their classes.
    n_neighbors : int, default=20
        How many neighbours vote.

    Returns
    -------
    accuracy : float
        From 0 to 1.
    """
    model = KNeighborsClassifier(
        min(n_neighbors, len(features)), metric="cosine", weights="distance"
    )
    model.fit(np.asarray(features), np.asarray(y))
    return float(model.score(np.asarray(test_features), np.asarray(test_y)))
