from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from surelabel.config.choices import Dropout, Net
from surelabel.config.settings import Config
from surelabel.inference.measures import entropy
from surelabel.inference.predictions import concatenate
from surelabel.inference.sampling import Reducer, draw_masks, predict, sample_outputs
from surelabel.models.bayesian import BayesianNet
from surelabel.models.nets import build_net
from surelabel.types import Ids, Prediction, Progress

SIDE = 8
KINDS = [Net.COMPACT, Net.DENSENET]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny(
    kind: Net, seed: int = 0, dropout: Dropout = Dropout.CONCRETE, p: float = 0.3
) -> BayesianNet:
    config = Config(net=kind, width=0.25, dropout=dropout, dropout_p=p)
    net = build_net(config, size=SIDE, channels=1, n_classes=3, k=2, generator=generator(seed))
    net.pixel_mean, net.pixel_std = torch.tensor([128.0]), torch.tensor([64.0])
    out = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():  # as if training had taught it some noise
        out.weight[-1].copy_(0.3 * torch.randn(out.in_features, generator=generator(seed + 50)))
    return net


PIXELS = torch.randint(0, 256, (600, 1, SIDE, SIDE), generator=generator(5), dtype=torch.uint8)


def pixels(rows: Tensor) -> Tensor:
    return PIXELS[rows]


def names(rows: Tensor) -> Ids:
    return np.array([f"item-{row}" for row in rows.tolist()])


def predict_rows(
    nets: Sequence[BayesianNet], rows: Tensor, mc_samples: int = 5, seeds: Sequence[int] = (1,)
) -> Prediction:
    return predict(nets, pixels, rows, names(rows), mc_samples=mc_samples, seeds=seeds)


def fields(prediction: Prediction) -> list[np.ndarray[tuple[int, ...], np.dtype[np.floating]]]:
    return [
        prediction.probabilities,
        prediction.expected_entropy,
        prediction.expected_square,
        prediction.aleatoric_variance,
    ]


def assert_same(a: Prediction, b: Prediction, atol: float) -> None:
    assert a.ids.tolist() == b.ids.tolist()
    for mine, other in zip(fields(a), fields(b), strict=True):
        np.testing.assert_allclose(mine, other, rtol=10 * atol, atol=atol)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_over_samples_is_that_of_an_explicit_loop_with_the_same_masks(kind: Net) -> None:
    net, rows = tiny(kind), torch.arange(7)
    prediction = predict_rows([net], rows, mc_samples=6, seeds=[11])
    masks = draw_masks(net, 6, generator(11))
    x = net.eval().standardize(pixels(rows))
    p, h, square, noise = [], [], [], []
    for t in range(6):
        with torch.no_grad(), net.masks([mask[t] for mask in masks]):
            out = net(x).double()
        softmax = out[:, :-1].softmax(dim=1).numpy()
        p.append(softmax)
        h.append(entropy(softmax))
        square.append((softmax**2).sum(axis=1))
        noise.append(out[:, -1].exp().numpy())
    expected = Prediction(
        names(rows),
        np.mean(p, axis=0),
        np.mean(h, axis=0),
        np.mean(square, axis=0),
        np.mean(noise, axis=0),
    )
    assert_same(prediction, expected, atol=1e-5)
    assert np.std(p, axis=0).max() > 1e-3


def test_one_batched_product_is_the_tail_written_out_for_each_sample() -> None:
    net = tiny(Net.COMPACT).eval()
    features = torch.randn(4, net.dropouts()[0].width, generator=generator(2))
    masks = draw_masks(net, 3, generator(3))
    hidden, out = (layer for layer in net.tail.modules() if isinstance(layer, nn.Linear))
    with torch.no_grad():
        stacked = sample_outputs(net, features, masks)
        assert stacked.shape == (3, 4, 4)
        for t in range(3):
            by_hand = out(torch.relu(hidden(features * masks[0][t])) * masks[1][t])
            torch.testing.assert_close(stacked[t], by_hand)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_is_one_draw_of_the_weights_the_same_for_every_image(kind: Net) -> None:
    net = tiny(kind)
    for layer, mask in zip(net.dropouts(), draw_masks(net, 4, generator()), strict=True):
        assert mask.shape[:3] == (4, 1, layer.width)
        assert mask.numel() == 4 * layer.width
    twice = torch.tensor([3, 3, 3])
    prediction = predict([net], pixels, twice, np.array(["a", "b", "c"]), mc_samples=4, seeds=[0])
    assert np.ptp(prediction.probabilities, axis=0).max() < 1e-6
    assert (prediction.expected_square - (prediction.probabilities**2).sum(axis=1)).min() > 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_prediction_and_another_seed_another(kind: Net) -> None:
    net, rows = tiny(kind), torch.arange(3)
    assert_same(predict_rows([net], rows, 4), predict_rows([net], rows, 4), atol=0)
    other = predict_rows([net], rows, 4, seeds=[2])
    assert np.abs(other.probabilities - predict_rows([net], rows, 4).probabilities).max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_depends_neither_on_the_rest_of_the_batch_nor_on_the_order(kind: Net) -> None:
    net = tiny(kind)
    n = 300 if kind is Net.COMPACT else 12
    rows = torch.randperm(n, generator=generator(4))
    shuffled = predict_rows([net], rows)
    straight = predict_rows([net], torch.arange(n))
    alone = predict_rows([net], torch.tensor([7]))
    for mixed, sorted_ in zip(fields(shuffled), fields(straight), strict=True):
        np.testing.assert_allclose(mixed, sorted_[rows.numpy()], rtol=1e-5, atol=1e-6)
    for single, sorted_ in zip(fields(alone), fields(straight), strict=True):
        np.testing.assert_allclose(single[0], sorted_[7], rtol=1e-5, atol=1e-6)


def test_at_the_same_place_in_another_batch_it_is_equal_to_the_last_bit() -> None:
    net = tiny(Net.COMPACT)
    first = predict_rows([net], torch.tensor([5, 0, 1, 2]))
    second = predict_rows([net], torch.tensor([5, 30, 31, 32]))
    for a, b in zip(fields(first), fields(second), strict=True):
        assert np.array_equal(a[0], b[0])
        assert not np.array_equal(a[1], b[1])


@pytest.mark.parametrize("kind", KINDS)
def test_one_sample_is_the_deterministic_forward_pass(kind: Net) -> None:
    net, rows = tiny(kind), torch.arange(6)
    prediction = predict_rows([net], rows, mc_samples=1)
    with torch.no_grad():
        out = net.eval()(net.standardize(pixels(rows))).double()
    p = out[:, :-1].softmax(dim=1).numpy()
    expected = Prediction(names(rows), p, entropy(p), (p**2).sum(axis=1), out[:, -1].exp().numpy())
    assert_same(prediction, expected, atol=1e-6)


def test_without_dropout_every_number_of_samples_gives_the_same() -> None:
    net, rows = tiny(Net.COMPACT, dropout=Dropout.FIXED, p=0.0), torch.arange(6)
    assert_same(
        predict_rows([net], rows, mc_samples=9), predict_rows([net], rows, mc_samples=1), atol=1e-6
    )


def test_an_ensemble_averages_probabilities_and_every_other_field() -> None:
    nets, rows = [tiny(Net.COMPACT, seed) for seed in (1, 2, 3)], torch.arange(5)
    together = predict_rows(nets, rows, seeds=[4, 5, 6])
    single = [predict_rows([net], rows, seeds=[s]) for net, s in zip(nets, (4, 5, 6), strict=True)]
    for mean, parts in zip(fields(together), zip(*map(fields, single), strict=True), strict=True):
        np.testing.assert_allclose(mean, np.mean(parts, axis=0), atol=1e-12)
    assert np.ptp([s.probabilities for s in single], axis=0).max() > 0.01


def test_members_need_a_seed_each() -> None:
    with pytest.raises(ValueError, match="shorter"):
        predict_rows([tiny(Net.COMPACT), tiny(Net.COMPACT)], torch.arange(2), seeds=[1])


def test_small_probabilities_are_kept_where_the_largest_rounds_to_one() -> None:
    net = tiny(Net.COMPACT)
    out = [layer for layer in net.tail.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():
        out.weight.zero_()
        out.bias.copy_(torch.tensor([0.0, 30.0, 1.0, -2.0]))
    prediction = predict_rows([net], torch.arange(2))
    assert prediction.probability == pytest.approx([1, 1], abs=1e-7)
    np.testing.assert_allclose(prediction.probabilities[:, 0], np.exp(-30), rtol=1e-5)
    np.testing.assert_allclose(prediction.probabilities[:, 2], np.exp(-29), rtol=1e-5)
    np.testing.assert_allclose(prediction.aleatoric_variance, np.exp(-2), rtol=1e-5)


def test_after_a_prediction_the_net_is_silent_again() -> None:
    net = tiny(Net.COMPACT)
    predict_rows([net], torch.arange(3))
    x = net.standardize(pixels(torch.arange(3)))
    with torch.no_grad():
        assert not net.training
        assert torch.equal(net(x), net(x))


def test_the_stem_runs_once_per_image_however_many_samples_are_drawn() -> None:
    net = tiny(Net.COMPACT)
    seen: list[int] = []
    first = next(iter(net.stem.children()))
    first.register_forward_hook(lambda _module, inputs, _out: seen.append(len(inputs[0])))
    predict_rows([net], torch.arange(300), mc_samples=20)
    assert sum(seen) == 300


def test_the_reducer_holds_one_row_of_classes_and_four_numbers_per_item() -> None:
    reducer = Reducer(n_items=40, n_classes=3, distances=True)
    for start in (0, 20):
        outputs = torch.randn(50, 20, 4, generator=generator(start))
        reducer.add(slice(start, start + 20), outputs, share=1.0)
        reducer.add_distance(slice(start, start + 20), np.ones(20), share=1.0)
    held = [
        torch.as_tensor(v) for v in vars(reducer).values() if isinstance(v, Tensor | np.ndarray)
    ]
    assert sum(value.numel() for value in held) == 40 * 3 + 40 * 4
    assert len(held) == len(vars(reducer))


def test_adding_samples_in_parts_is_adding_them_at_once() -> None:
    outputs = torch.randn(8, 5, 4, generator=generator())
    whole, parts = Reducer(5, 3), Reducer(5, 3)
    whole.add(slice(0, 5), outputs, 1.0)
    for half in outputs.chunk(2):
        for at in (slice(0, 2), slice(2, 5)):
            parts.add(at, half[:, at], 0.5)
    ids = np.array(list("abcde"))
    assert_same(whole.prediction(ids), parts.prediction(ids), atol=1e-6)


def test_progress_counts_images_of_all_members_up_to_the_total() -> None:
    heard: list[Progress] = []
    rows = torch.arange(300)
    predict(
        [tiny(Net.COMPACT, 1), tiny(Net.COMPACT, 2)],
        pixels,
        rows,
        names(rows),
        mc_samples=2,
        seeds=[1, 2],
        on_progress=heard.append,
    )
    assert [p.done for p in heard] == sorted({p.done for p in heard})
    assert heard[-1].done == heard[-1].total == 600


def test_no_images_give_an_empty_prediction() -> None:
    prediction = predict_rows([tiny(Net.COMPACT)], torch.arange(0))
    assert len(prediction) == 0
    assert prediction.probabilities.shape == (0, 3)


def test_concatenate_puts_predictions_one_after_the_other() -> None:
    net = tiny(Net.COMPACT)
    parts = [predict_rows([net], torch.tensor(rows)) for rows in ([4, 2], [9], [0, 1, 3])]
    joined = concatenate(parts)
    assert joined.ids.tolist() == [f"item-{i}" for i in (4, 2, 9, 0, 1, 3)]
    for whole, pieces in zip(fields(joined), zip(*map(fields, parts), strict=True), strict=True):
        assert np.array_equal(whole, np.concatenate(pieces))


def test_no_images_have_no_distances_but_are_known_to_have_been_measured() -> None:
    net = tiny(Net.COMPACT)
    prediction = predict(
        [net],
        pixels,
        torch.arange(0),
        np.empty(0, dtype=np.str_),
        mc_samples=2,
        seeds=[1],
        distances=[lambda features: features.sum(axis=1)],
    )
    assert prediction.distance is not None
    assert prediction.distance.shape == (0,)
