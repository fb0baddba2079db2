"""Features and clusters learnt together, without pooling: DeepFeCA, on PyTorch.

The only part of unpooled that imports torch; ``pip install 'unpooled[deep]'`` brings it.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover (tests have it)
    raise ImportError("unpooled.deep needs PyTorch; run pip install 'unpooled[deep]'.") from error

from unpooled.deep.augmentation import Augmentation
from unpooled.deep.encoders import ConvNet, ResNet18
from unpooled.deep.estimator import DeepFeCA
from unpooled.deep.evaluation import knn_accuracy, linear_accuracy
from unpooled.deep.pictures import draw_page
from unpooled.deep.pooled import DeepCluster

__all__ = [
    "Augmentation",
    "ConvNet",
    "DeepCluster",
    "DeepFeCA",
    "ResNet18",
    "draw_page",
    "knn_accuracy",
    "linear_accuracy",
]
