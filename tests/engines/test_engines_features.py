from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from photo_data import N_PHOTOS, backbone, features_of, photo_catalog, photos, settings

from surelabel.config.settings import Config
from surelabel.dataset.array_store import FeatureStore
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.ensemble import load_ensemble
from surelabel.engines.inputs import to_half
from surelabel.engines.local import LocalLearner
from surelabel.errors import InputError, RunError
from surelabel.models.densenet import PublicDenseNet
from surelabel.models.efficientnet_lite import LITE0, EfficientNetLite
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import Progress
from surelabel.workflows.model_inputs import open_inputs
from surelabel.workflows.problem import build_problem


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return photo_catalog(tmp_path / "pixels")


def everything(catalog: Catalog) -> torch.Tensor:
    return torch.arange(len(catalog))


def test_features_are_what_the_backbone_says_rounded_once(catalog: Catalog, tmp_path: Path) -> None:
    features = features_of(catalog, tmp_path / "pixels", tmp_path / "cache")
    features.compute()
    found = features.pixels(everything(catalog))
    net = backbone()
    pixels = torch.from_numpy(photos()[0]).permute(0, 3, 1, 2)
    with torch.no_grad():
        predicted = net(net.standardize(pixels))
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), predicted, rtol=1e-3, atol=1e-3)


def test_cached_or_not_the_features_are_the_same_to_the_bit(
    catalog: Catalog, tmp_path: Path
) -> None:
    cached = features_of(catalog, tmp_path / "pixels", tmp_path / "cache")
    in_memory = features_of(catalog, tmp_path / "pixels", None)
    # The first comes to the same images in other batches.
    cached.compute(ids=catalog.ids[7:8])
    assert len(cached.missing(catalog.ids)) == N_PHOTOS - 1
    for each in (cached, in_memory):
        each.compute()
        each.compute_views(catalog.ids[:5], 3, flips=False)
    rows = everything(catalog)
    assert torch.equal(cached.pixels(rows), in_memory.pixels(rows))
    drawn = [f.views(rows, torch.Generator().manual_seed(1)) for f in (cached, in_memory)]
    assert torch.equal(*drawn)


def test_runs_on_the_same_images_share_them(catalog: Catalog, tmp_path: Path) -> None:
    reports: list[Progress] = []
    for _ in range(2):
        reports.clear()
        features_of(catalog, tmp_path / "pixels", tmp_path / "cache").compute(reports.append)
    assert {(p.done, p.total) for p in reports} == {(N_PHOTOS, N_PHOTOS)}


def test_other_weights_and_sizes_have_other_features(catalog: Catalog, tmp_path: Path) -> None:
    places = {
        features_of(catalog, tmp_path / "pixels", tmp_path / "cache", net).store.folder.name  # type: ignore[union-attr]
        for net in (backbone(0), backbone(1), backbone(0))
    }
    assert len(places) == 2


def test_the_size_on_disk_is_told_before_the_first_image(catalog: Catalog, tmp_path: Path) -> None:
    reports: list[Progress] = []
    features = features_of(catalog, tmp_path / "pixels", tmp_path / "cache")
    features.compute(reports.append)
    assert (reports[0].done, reports[0].total) == (0, N_PHOTOS)
    assert "0.0 MB" in reports[0].what
    assert isinstance(features.store, FeatureStore)
    file = features.store.folder / "features.f16"
    assert file.stat().st_size == N_PHOTOS * features.store.row_bytes == N_PHOTOS * 12 * 2


def test_views_are_only_of_the_images_asked_for(catalog: Catalog, tmp_path: Path) -> None:
    features = features_of(catalog, tmp_path / "pixels", tmp_path / "cache")
    features.compute()
    features.compute_views(catalog.ids[:4], 3, flips=True)
    rows, generator = torch.arange(N_PHOTOS).repeat(40), torch.Generator().manual_seed(0)
    drawn = features.views(rows, generator).reshape(40, N_PHOTOS, 12)
    kinds = [len(np.unique(drawn[:, i].numpy(), axis=0)) for i in range(N_PHOTOS)]
    assert kinds == [4] * 4 + [1] * (N_PHOTOS - 4)


def test_overflow_is_refused() -> None:
    assert to_half(torch.tensor([65504.0]), "x").tolist() == [65504.0]
    for bad in (65536.0, -1e6, float("nan")):
        with pytest.raises(InputError, match="beyond 65504"):
            to_half(torch.tensor([1.0, bad]), "x")


def test_a_backbone_that_overflows_says_so(catalog: Catalog, tmp_path: Path) -> None:
    features = features_of(catalog, tmp_path / "pixels", tmp_path / "c", backbone(scale=1e7))
    with pytest.raises(InputError, match="net toy gives features beyond"):
        features.compute()


def round_inputs_of(catalog: Catalog) -> RoundInputs:
    problem = build_problem(catalog, {}, 0)
    return RoundInputs(1, problem, problem.pool_ids[:0], np.empty(0, dtype=np.int64), np.empty(0))


def test_the_learner_learns_from_features_and_both_ways_agree(
    catalog: Catalog, tmp_path: Path
) -> None:
    predicted = []
    for number, cache in enumerate([tmp_path / "cache", None]):
        features = features_of(catalog, tmp_path / "pixels", cache)
        features.compute()
        work_folder = tmp_path / f"work{number}"
        work_folder.mkdir()
        learner = LocalLearner(settings(), features).train(round_inputs_of(catalog), work_folder)
        predicted.append(learner.predict(catalog.ids).probabilities)
        member = learner.report()["members"][0]
        assert member["backbone"] == features.backbone.digest
    assert np.array_equal(predicted[0], predicted[1])
    assert (predicted[0].argmax(1) == photos()[1]).mean() > 0.9


def test_weights_of_another_backbone_are_refused(catalog: Catalog, tmp_path: Path) -> None:
    features = features_of(catalog, tmp_path / "pixels", tmp_path / "cache")
    features.compute()
    config = settings(views=0, members=2)
    LocalLearner(config, features).train(round_inputs_of(catalog), tmp_path)
    other = features_of(catalog, tmp_path / "pixels", tmp_path / "cache", backbone(1))
    with pytest.raises(RunError, match="other weights of toy"):
        load_ensemble([tmp_path / "weights-0.safetensors"], 1, settings(), other)


WRITER = """
import sys
import time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from photo_data import features_of, photo_catalog
import surelabel.engines.inputs as module
module._SAVE = 1
place = Path(sys.argv[2])
features = features_of(photo_catalog(place / "pixels"), place / "pixels", place / "cache")
def tell(progress):
    print(progress.done, flush=True)
    if progress.done >= 32:
        time.sleep(600)
features.compute(tell)
"""


def test_a_killed_extraction_goes_on_where_it_was(catalog: Catalog, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().isdigit() and int(line) >= 32:
                os.kill(process.pid, signal.SIGKILL)
                break
    again = features_of(catalog, tmp_path / "pixels", tmp_path / "cache")
    left = len(again.store.missing(catalog.digests))
    assert 0 < left < N_PHOTOS
    again.compute()
    whole = features_of(catalog, tmp_path / "pixels", None)
    whole.compute()
    rows = everything(catalog)
    assert torch.equal(again.pixels(rows), whole.pixels(rows))


def test_standardized_features_have_mean_0_and_deviation_1(
    catalog: Catalog, tmp_path: Path
) -> None:
    features = features_of(catalog, tmp_path / "pixels", None)
    features.compute()
    mean, std = features.statistics(0)
    ready = (features.pixels(everything(catalog)).float() - mean) / std
    torch.testing.assert_close(ready.mean(0), torch.zeros(12), atol=1e-4, rtol=0)
    alive = std > std.median() * 0.06
    torch.testing.assert_close(ready.std(0, correction=0)[alive], torch.ones(int(alive.sum())))


@pytest.mark.parametrize(
    ("net", "tail", "shape"),
    [
        ("densenet121", "wide", (1024,)),
        ("densenet121", "last_block", (512, 1, 1)),
        ("efficientnet-lite0", "last_block", (192, 1, 1)),
        ("efficientnet-lite0", "detail", (272, 2, 2)),
    ],
)
def test_the_other_tails_learn_and_are_found_again(
    catalog: Catalog, tmp_path: Path, net: str, tail: str, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    public = EfficientNetLite(LITE0) if net == "efficientnet-lite0" else PublicDenseNet(net)
    torch.save(public.state_dict(), tmp_path / "weights.pth")
    few = {"steps": 3, "batch_size": 4, "members": 1, "mc_samples": 2, "views": 0}
    names = {"net": net, "tail": tail, "net_weights": str(tmp_path / "weights.pth")}
    config = Config.from_mapping({**names, **few, "cache": str(tmp_path / "cache")})
    config = config.in_effect(pretrained=True)
    inputs = open_inputs(config, catalog, open_pixels(catalog, tmp_path / "pixels"))
    assert inputs.pixels(torch.tensor([0])).shape[1:] == shape
    learner = LocalLearner(config, inputs).train(round_inputs_of(catalog), tmp_path)
    before = learner.predict(catalog.ids[:8])
    files = sorted(tmp_path.glob("weights-*.safetensors"))
    again = load_ensemble(files, 1, config, inputs)
    assert np.array_equal(again.predict(catalog.ids[:8]).probabilities, before.probabilities)
