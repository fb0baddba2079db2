"""The parts of local training, each against a plain way to do the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.deep.plain import IMAGES, tiny
from tests.sentences import refuses
from unpooled.deep import vectors
from unpooled.deep.augmentation import Augmentation, _grid
from unpooled.deep.encoders import ConvNet, Network, ResNet18, width_of
from unpooled.deep.lars import LARS
from unpooled.deep.training import Training, _batches, train
from unpooled.errors import InputError

AS_THEY_ARE = Augmentation(
    large=1, large_scale=(1.0, 1.0), aspect=1.0, flip=False, colour=0.0, grey=0.0
)
UNSCALED = torch.zeros(3), torch.ones(3)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def photographs(n: int = 5, channels: int = 3) -> torch.Tensor:
    return torch.rand(n, channels, 9, 11, generator=generator(7))


class TestViews:
    def test_the_whole_image_is_the_image(self) -> None:
        images = photographs()
        (view,) = AS_THEY_ARE.views(images, UNSCALED, generator())
        torch.testing.assert_close(view, images)

    def test_channels_are_scaled(self) -> None:
        images, mean, scale = photographs(), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 2, 4])
        (view,) = AS_THEY_ARE.views(images, (mean, scale), generator())
        torch.testing.assert_close(view, (images - mean.view(3, 1, 1)) / scale.view(3, 1, 1))
        colourful = Augmentation(large=1, colour=1e-9, grey=0.0, flip=False, large_scale=(1, 1))
        colourful = Augmentation(**{**vars(colourful), "aspect": 1.0})
        (same,) = colourful.views(images, (mean, scale), generator())
        torch.testing.assert_close(same, view)

    def test_half_of_them_are_mirrored(self) -> None:
        images = photographs(200)
        mirrored = Augmentation(**{**vars(AS_THEY_ARE), "flip": True})
        (view,) = mirrored.views(images, UNSCALED, generator())
        straight = (view - images).abs().amax(dim=(1, 2, 3)) < 1e-4
        turned = (view - images.flip(3)).abs().amax(dim=(1, 2, 3)) < 1e-4
        assert torch.all(straight ^ turned)
        assert 70 < int(turned.sum()) < 130

    def test_a_crop_is_a_part_of_the_image(self) -> None:
        """Of an image that rises evenly, a crop of a quarter of the area rises half as far."""
        rising = torch.linspace(0, 1, 64).expand(300, 1, 64, 64)
        quarter = Augmentation(**{**vars(AS_THEY_ARE), "large_scale": (0.25, 0.25)})
        (view,) = quarter.views(rising, (torch.zeros(1), torch.ones(1)), generator())
        rise = view[..., -1] - view[..., 0]
        torch.testing.assert_close(rise, torch.full_like(rise, 0.5), atol=0.02, rtol=0)
        starts = view[:, 0, 0, 0]
        assert starts.min() < 0.05
        assert 0.4 < starts.max() < 0.55

    def test_numbers_and_sizes(self) -> None:
        views = Augmentation(large=2, small=3, large_size=1.0, small_size=0.5)
        large, small = views.views(photographs(4), UNSCALED, generator())
        assert large.shape == (8, 3, 9, 11)
        assert small.shape == (12, 3, 4, 6)

    def test_grey_stays_grey_and_no_colour_is_left_without(self) -> None:
        grey = photographs(50)[:, :1].expand(-1, 3, -1, -1)
        (view,) = Augmentation(large=1, colour=0.8, grey=0.0).views(grey, UNSCALED, generator())
        torch.testing.assert_close(view[:, 0], view[:, 1])
        (view,) = Augmentation(large=1, colour=0.8, grey=1.0).views(
            photographs(), UNSCALED, generator()
        )
        torch.testing.assert_close(view[:, 0], view[:, 2])

    def test_pixels_lie_where_torch_puts_them(self) -> None:
        theta = torch.rand(6, 5, generator=generator())
        whole = theta.T.reshape(5, 2, 3)
        ours = _grid(theta, 4, 7)
        torch.testing.assert_close(ours, functional.affine_grid(whole, [5, 1, 4, 7], False))

    def test_the_same_seed_gives_the_same_views(self) -> None:
        views = Augmentation(small=1, rotation=20.0)
        one, two, other = (views.views(photographs(), UNSCALED, generator(s)) for s in (1, 1, 2))
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
        assert not torch.equal(one[0], other[0])

    def test_any_number_of_channels(self) -> None:
        for channels in (1, 2, 5):
            scaling = torch.zeros(channels), torch.ones(channels)
            (view,) = Augmentation().views(photographs(4, channels), scaling, generator())
            assert view.shape == (8, channels, 9, 11)
            assert torch.isfinite(view).all()

    def test_bad_ones_are_refused(self) -> None:
        refuses(lambda: Augmentation(large=0), "large=0", InputError)
        refuses(lambda: Augmentation(large="2"), "large='2'")  # type: ignore[arg-type]
        refuses(lambda: Augmentation(aspect=0.0), "aspect=0.0")
        refuses(lambda: Augmentation(large_scale=0.5), "large_scale=0.5")  # type: ignore[arg-type]
        refuses(lambda: Augmentation(large_scale=(0.5, 0.2)), "must be two rising shares")
        refuses(lambda: Augmentation.of({"zoom": 1}), "no option 'zoom'", InputError)
        assert Augmentation.of({"small": 4, "small_scale": [0.1, 0.2]}).small_scale == (0.1, 0.2)


class TestNetworks:
    @pytest.mark.parametrize("kind", [ConvNet, ResNet18])
    @pytest.mark.parametrize("size", [1, 2, 7, 8, 33])
    def test_images_of_any_size(self, kind: type[nn.Module], size: int) -> None:
        network = kind(3, width=8)
        assert network(torch.rand(2, 3, size, size)).shape == (2, 64)

    def test_the_usual_resnet(self) -> None:
        numbers = sum(p.numel() for p in ResNet18().parameters())
        assert numbers == 11_168_832  # torchvision's without its 1000 classes and with this stem

    def test_without_batch_normalisation(self) -> None:
        network = ConvNet(1, norm="group")
        assert not any(isinstance(m, nn.BatchNorm2d) for m in network.modules())
        assert not list(network.buffers())

    @pytest.mark.parametrize("components", [0, 5])
    def test_points_are_on_the_sphere(self, components: int) -> None:
        network = Network(tiny(), 16, components).eval()
        points = network(torch.rand(6, 1, 8, 8))
        assert points.shape == (6, components or 16)
        torch.testing.assert_close(points.norm(dim=1), torch.ones(6))

    def test_what_is_no_encoder(self) -> None:
        with pytest.raises(ValueError, match=r"makes \(1, 1, 8, 8\) of one image"):
            width_of(nn.Identity(), (1, 8, 8))


class TestVectors:
    def test_there_and_back(self) -> None:
        one, other = Network(tiny(), 16, 3), Network(tiny(), 16, 3)
        vector = vectors.to_vector(one)
        assert vector.dtype == np.float32
        assert len(vector) == vectors.count(one)
        vectors.from_vector(other, vector)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.equal(a, b)

    def test_the_mean_weighs_by_rows(self) -> None:
        network = nn.Linear(3, 2)
        sent = [np.random.default_rng(i).normal(size=8).astype(np.float32) for i in range(3)]
        weights = np.array([1.0, 2.0, 5.0])
        found = vectors.averaged(network, sent, weights, "pooled")
        np.testing.assert_allclose(found, np.average(sent, axis=0, weights=weights), rtol=1e-6)

    def test_statistics_are_those_of_all_rows_together(self) -> None:
        rng = np.random.default_rng(0)
        tables = [rng.normal(loc, 1 + loc, (n, 4)) for loc, n in ((0.0, 50), (3.0, 20), (-1.0, 90))]
        pooled = np.concatenate(tables)

        def network(rows: np.ndarray) -> nn.Module:
            layer = nn.Sequential(nn.BatchNorm1d(4))
            layer[0].running_mean = torch.tensor(rows.mean(axis=0), dtype=torch.float32)
            layer[0].running_var = torch.tensor(rows.var(axis=0), dtype=torch.float32)
            return layer

        sent = [vectors.to_vector(network(rows)) for rows in tables]
        sizes = np.array([len(rows) for rows in tables], dtype=float)
        whole = network(pooled)
        found = vectors.averaged(whole, sent, sizes, "pooled")
        np.testing.assert_allclose(found, vectors.to_vector(whole), rtol=1e-5)
        plain = vectors.averaged(whole, sent, sizes, "averaged")
        np.testing.assert_allclose(plain, np.average(sent, axis=0, weights=sizes), rtol=1e-6)
        assert (plain[-4:] < found[-4:]).all()


class TestOptimisers:
    def test_lars_against_numpy(self) -> None:
        rng = np.random.default_rng(1)
        w, b = rng.normal(size=(3, 2)), rng.normal(size=3)
        matrix, bias = (nn.Parameter(torch.tensor(v)) for v in (w, b))
        steps = LARS([matrix, bias], lr=0.5, momentum=0.9, weight_decay=0.1, trust=0.01)
        v_w, v_b = np.zeros_like(w), np.zeros_like(b)
        for _ in range(4):
            g_w, g_b = rng.normal(size=w.shape), rng.normal(size=b.shape)
            matrix.grad, bias.grad = torch.tensor(g_w), torch.tensor(g_b)
            steps.step()
            g_w = g_w + 0.1 * w
            v_w = 0.9 * v_w + 0.01 * np.linalg.norm(w) / np.linalg.norm(g_w) * g_w
            v_b = 0.9 * v_b + g_b
            w, b = w - 0.5 * v_w, b - 0.5 * v_b
        np.testing.assert_allclose(matrix.detach().numpy(), w)
        np.testing.assert_allclose(bias.detach().numpy(), b)

    def test_rates_rise_and_fall(self) -> None:
        training = Training(learning_rate=2.0, warmup=0.2)
        assert [training.rate(t) for t in (0.0, 0.1, 0.2, 0.6, 1.0)] == pytest.approx(
            [0.0, 1.0, 2.0, 1.0, 0.0]
        )

    @pytest.mark.parametrize("n", [2, 15, 16, 17, 32, 33, 34])
    def test_every_row_once_and_none_alone(self, n: int) -> None:
        batches = list(_batches(n, 16, generator()))
        assert sorted(torch.cat(batches).tolist()) == list(range(n))
        assert min(map(len, batches)) > 1


@pytest.mark.parametrize("optimizer", ["sgd", "lars"])
@pytest.mark.parametrize("head", ["fixed", "trained"])
def test_training_is_the_plain_loop(optimizer: str, head: str) -> None:
    """An epoch by a loop of its own: the same numbers, bit for bit."""
    training = Training(
        epochs=2, batch_size=16, optimizer=optimizer, head=head, learning_rate=0.1, temperature=0.2
    )
    images = torch.from_numpy(IMAGES.reshape(-1, 1, 8, 8).astype(np.float32))
    scaling, views = (torch.tensor([5.0]), torch.tensor([6.0])), Augmentation(small=1)
    labels = torch.arange(len(images)) % 4
    prototypes = functional.normalize(torch.randn(4, 16, generator=generator(3)))
    torch.manual_seed(0)
    network = Network(tiny(), 16, 0)
    plain = Network(tiny(), 16, 0)
    plain.load_state_dict(network.state_dict())
    loss = train(
        network,
        images,
        labels,
        None,
        prototypes,
        scaling,
        training,
        views,
        (0.2, 0.4),
        generator(5),
    )

    rng, prototypes = generator(5), prototypes.clone().requires_grad_(head == "trained")
    parameters = [*plain.parameters(), *([prototypes] if head == "trained" else [])]
    kind = LARS if optimizer == "lars" else torch.optim.SGD
    steps = kind(parameters, lr=1.0, momentum=0.9, weight_decay=1e-4)
    plain.train()
    batches, done = math.ceil(len(images) / 16), 0
    for _ in range(2):
        seen = []
        for rows in torch.randperm(len(images), generator=rng).split(16):
            steps.param_groups[0]["lr"] = training.rate(0.2 + 0.2 * done / (2 * batches))
            points = torch.cat([plain(v) for v in views.views(images[rows], scaling, rng)])
            found = functional.cross_entropy(points @ prototypes.T / 0.2, labels[rows].repeat(3))
            steps.zero_grad()
            found.backward()
            steps.step()
            done += 1
            seen += [float(found.detach())] * len(rows)
    np.testing.assert_array_equal(vectors.to_vector(network), vectors.to_vector(plain))
    assert loss == pytest.approx(np.mean(seen))


def test_weights_of_images_count() -> None:
    """Images of weight 0 teach nothing: the network stays as it was, but for its statistics."""
    images = torch.from_numpy(IMAGES[:32].reshape(-1, 1, 8, 8).astype(np.float32))
    network = Network(tiny(), 16, 0)
    before = [p.detach().clone() for p in network.parameters()]
    prototypes = functional.normalize(torch.randn(4, 16))
    train(
        network,
        images,
        torch.zeros(32, dtype=torch.long),
        torch.zeros(32),
        prototypes,
        (torch.zeros(1), torch.ones(1)),
        Training(weight_decay=0.0),
        Augmentation(),
        (0.0, 1.0),
        generator(),
    )
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
