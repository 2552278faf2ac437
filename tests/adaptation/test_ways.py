from __future__ import annotations

import numpy as np
import pytest
import torch
from two_domains import K, two_datasets

from surelabel.adaptation.ways import (
    ALONE,
    CLUSTERING,
    DIRECT,
    SMALLEST,
    WAYS,
    LabelPropagation,
    LabelShift,
    OldPosterior,
    OwnStatistics,
    Space,
    Statistics,
    Together,
    TwoDatasets,
    Way,
    log_floor,
    neighbor_graph,
)
from surelabel.types import FloatArray, IntArray

NOBODY = np.empty(0, dtype=np.int64)


@pytest.fixture(name="both", scope="module")
def fixture_both() -> tuple[TwoDatasets, IntArray]:
    return two_datasets()


def some_labels(truth: IntArray, per_class: int) -> IntArray:
    return np.sort(np.concatenate([np.flatnonzero(truth == k)[:per_class] for k in range(K)]))


def accuracy(logs: FloatArray, truth: IntArray) -> float:
    return float((logs.argmax(axis=1) == truth).mean())


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_each_way_gives_log_probabilities_of_any_image(
    way: Way, both: tuple[TwoDatasets, IntArray]
) -> None:
    data, truth = both
    rows = some_labels(truth, 8)
    for setting in way.settings:
        predict = way.fit(data, rows, truth[rows], setting)
        logs = predict(np.arange(len(truth)))
        assert logs.shape == (len(truth), K)
        assert np.allclose(np.exp(logs).sum(axis=1), 1)
        assert logs.min() > np.log(SMALLEST) - 0.1
        assert np.allclose(predict(np.array([7, 3])), logs[[7, 3]], atol=1e-5)


def test_own_statistics_undo_an_offset_that_direct_inference_suffers_from(
    both: tuple[TwoDatasets, IntArray],
) -> None:
    data, truth = both
    everyone = np.arange(len(truth))
    way = OwnStatistics()
    own = way.fit(data, NOBODY, NOBODY, way.settings[0])(everyone)
    direct = DIRECT.fit(data, NOBODY, NOBODY, DIRECT.settings[0])(everyone)
    assert accuracy(own, truth) > 0.9 > accuracy(direct, truth) + 0.1


def test_old_labels_help_where_new_ones_are_few(both: tuple[TwoDatasets, IntArray]) -> None:
    data, truth = both
    rows = some_labels(truth, 2)
    rest = np.setdiff1d(np.arange(len(truth)), rows)
    for way in (Together(), OldPosterior()):
        helped = way.fit(data, rows, truth[rows], way.settings[0])(rest)
        alone = ALONE.fit(data, rows, truth[rows], ALONE.settings[0])(rest)
        assert accuracy(helped, truth[rest]) > accuracy(alone, truth[rest]) + 0.02


def test_a_prior_without_doubt_is_the_old_head_and_one_without_weight_the_labels_alone(
    both: tuple[TwoDatasets, IntArray],
) -> None:
    data, truth = both
    rows, everyone = some_labels(truth, 20), np.arange(len(truth))
    way, centered = OldPosterior(), Statistics.CENTERED
    old, new = data.old_head(centered), data.spaces[centered].new
    halved = torch.log_softmax(new @ (old.weights / 2) + old.bias / 2, dim=1).double().numpy()
    sure = way.fit(data, rows, truth[rows], (centered, 1e6))(everyone)
    assert np.abs(np.exp(sure) - np.exp(halved)).max() < 0.2  # the biases may move
    assert accuracy(sure, halved.argmax(axis=1)) > 0.95
    shared = data.fit_head("a", (centered, 0.1), new[rows], truth[rows])
    weightless = data.fit_head("b", (centered, 0.1), new[rows], truth[rows], prior_mean=None)
    assert torch.allclose(shared.weights, weightless.weights, atol=1e-2)


def test_label_shift_finds_the_shares_of_calibrated_predictions() -> None:
    """With p = the truth's own likelihoods, EM finds the shares that the images were drawn with."""
    rng = np.random.default_rng(0)
    labels = rng.choice(2, 4000, p=[0.9, 0.1])
    seen = rng.normal(labels * 2.0, 1.0)
    logits = np.stack([np.zeros(4000), 2 * seen - 2], axis=1)
    space = Space(torch.zeros(100, 1), torch.zeros(4000, 1))
    data = TwoDatasets({Statistics.OLD: space}, np.arange(100) % 2, log_floor(logits))
    way = LabelShift()
    logs = way.fit(data, NOBODY, NOBODY, way.settings[0])(np.arange(4000))
    assert np.exp(logs)[:, 1].mean() == pytest.approx(0.1, abs=0.02)
    assert accuracy(logs, labels) > accuracy(data.direct, labels)


def test_labels_spread_along_the_graph_also_to_images_outside_of_it() -> None:
    rng = np.random.default_rng(0)
    where = np.repeat(np.eye(2), 30, axis=0)
    places = torch.from_numpy((where + rng.normal(0, 0.05, where.shape)).astype(np.float32))
    space = Space(places[:0], places)
    data = TwoDatasets({Statistics.STANDARDIZED: space}, NOBODY, np.zeros((60, 2)))
    way = LabelPropagation()
    truth = np.repeat([0, 1], 30)
    logs = way.fit(data, np.array([0, 30]), np.array([0, 1]), way.settings[0])(np.arange(60))
    assert accuracy(logs, truth) == 1
    graph = neighbor_graph(Space(places[:10], places[:40]), 0)
    bigger = neighbor_graph(Space(places[:10], places), 0)
    outside = type(graph)(graph.links, graph.old_rows, np.arange(40), graph.vectors, places)
    nodes, weights = outside.nodes_of(np.array([3, 45]))
    assert nodes[0, 0] == 10 + 3
    assert weights[0, 0] == 1
    assert (graph.vectors[nodes[1]][:, 1] > 0.9).all()
    assert np.allclose(weights.sum(axis=1), 1)
    assert bigger.links.shape == (70, 70)


def test_the_papers_way_needs_no_more_than_its_clusters(
    both: tuple[TwoDatasets, IntArray],
) -> None:
    data, truth = both
    rows = some_labels(truth, 20)
    adaptation = CLUSTERING.adaptation(data, rows, truth[rows])
    assert adaptation.k == 2 * K
    assert set(adaptation.centroid_set.labels.tolist()) == set(range(K))
    logs = CLUSTERING.fit(data, rows, truth[rows], CLUSTERING.settings[0])(rows)
    new = data.spaces[Statistics.OLD].new.numpy()[rows]
    assert np.array_equal(logs.argmax(axis=1), adaptation.predict(new))


def test_one_label_in_all_is_enough_to_fit_any_way(both: tuple[TwoDatasets, IntArray]) -> None:
    """As with two classes, one label of each, and one of them left out."""
    data, truth = both
    for way in WAYS:
        logs = way.fit(data, np.arange(1), truth[:1], way.settings[0])(np.arange(5))
        assert logs.shape == (5, data.n_classes)
        assert np.isfinite(logs).all()
