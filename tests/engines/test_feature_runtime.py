"""Features by onnxruntime and by PyTorch: the same up to rounding, never in one cache entry."""

from __future__ import annotations

import errno
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from photo_data import SIDE, backbone, features_of, photo_catalog

from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.engines import feature_runtime
from surelabel.engines.feature_runtime import OnnxRuntime, TorchRuntime, open_runtime
from surelabel.engines.inputs import Features, Images
from surelabel.models.backbones import Backbone, load_backbone
from surelabel.models.densenet import PublicDenseNet
from surelabel.models.efficientnet_lite import LITE0, EfficientNetLite
from surelabel.models.onnx_program import onnx_program
from surelabel.models.placement import Placement

pytest.importorskip("onnxruntime")
CPU = torch.device("cpu")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return photo_catalog(tmp_path / "pixels")


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def built_in(folder: Path, net: str = "efficientnet-lite0", tail: str = "linear") -> Backbone:
    """A built-in net with random weights."""
    torch.manual_seed(0)
    public = EfficientNetLite(LITE0) if net == "efficientnet-lite0" else PublicDenseNet(net)
    for norm in public.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean = 0.1 * torch.randn(norm.num_features)
            norm.running_var = 0.5 + torch.rand(norm.num_features)
    weights = folder / "weights.pth"
    torch.save(public.state_dict(), weights)
    names = {"net": net, "tail": tail, "net_weights": str(weights)}
    return load_backbone(Config.from_mapping(names))


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the graph of the built-in net is kept between tests: making it takes seconds."""
    return tmp_path_factory.mktemp("graphs")


def images_of(catalog: Catalog, folder: Path) -> Images:
    return Images(catalog, open_pixels(catalog, folder / "pixels"), in_memory=False)


@pytest.mark.parametrize(
    ("net", "tail"),
    [
        ("efficientnet-lite0", "linear"),
        ("efficientnet-lite0", "detail"),
        ("densenet121", "last_block"),
    ],
)
def test_both_runtimes_give_the_same_features(tmp_path: Path, net: str, tail: str) -> None:
    frozen = built_in(tmp_path, net, tail)
    runtime = open_runtime(frozen, 64, CPU, tmp_path)
    assert isinstance(runtime, OnnxRuntime)
    shown = frozen.standardize(torch.randint(0, 256, (runtime.batch, 3, 64, 64)))
    found, expected = runtime(shown), TorchRuntime(frozen, Placement(CPU))(shown)
    assert found.shape[1:] == frozen.shape(64)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    assert float(expected.std()) > 0


def test_features_do_not_depend_on_threads_batches_or_the_cache(
    catalog: Catalog, tmp_path: Path, graphs: Path, threads: None
) -> None:
    frozen, images = built_in(tmp_path), images_of(catalog, tmp_path)
    runtime = open_runtime(frozen, SIDE, CPU, graphs)
    torch.set_num_threads(1)
    kept = Features(images, frozen, tmp_path / "cache", runtime)
    kept.compute(ids=catalog.ids[7:8])
    kept.compute()
    torch.set_num_threads(3)
    in_memory = Features(images, frozen, None, open_runtime(frozen, SIDE, CPU, graphs))
    in_memory.compute()
    assert torch.get_num_threads() == 3
    rows = torch.arange(len(catalog))
    assert torch.equal(kept.pixels(rows), in_memory.pixels(rows))


def test_features_of_two_runtimes_are_kept_apart(
    catalog: Catalog, tmp_path: Path, graphs: Path
) -> None:
    frozen, images = built_in(tmp_path), images_of(catalog, tmp_path)
    fast = Features(images, frozen, tmp_path, open_runtime(frozen, SIDE, CPU, graphs))
    slow = Features(images, frozen, tmp_path)
    fast.compute()
    assert len(slow.missing(catalog.ids)) == len(catalog)
    slow.compute()
    rows = torch.arange(len(catalog))
    both = [each.pixels(rows).float() for each in (fast, slow)]
    torch.testing.assert_close(*both, rtol=2e-3, atol=1e-3)


def test_mixed_precision_gives_nearly_the_same_features_and_keeps_them_apart(
    catalog: Catalog, tmp_path: Path
) -> None:
    frozen, images = built_in(tmp_path), images_of(catalog, tmp_path)
    mixed = TorchRuntime(frozen, Placement(CPU, mixed_precision=True))
    half = Features(images, frozen, tmp_path, mixed)
    half.compute()
    full = Features(images, frozen, tmp_path)
    assert len(full.missing(catalog.ids)) == len(catalog)
    full.compute()
    rows = torch.arange(len(catalog))
    found, expected = half.pixels(rows).float(), full.pixels(rows).float()
    assert not torch.equal(found, expected)
    assert float((found - expected).abs().max()) < 0.02 * float(expected.abs().max())


def test_a_graph_is_made_once_and_again_where_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = built_in(tmp_path)
    made = []

    def counted(*args: object, **names: object) -> object:
        made.append(args)
        return onnx_program(*args, **names)  # type: ignore[arg-type]

    monkeypatch.setattr("surelabel.engines.feature_runtime.onnx_program", counted)
    shown = frozen.standardize(torch.randint(0, 256, (1, 3, SIDE, SIDE)))
    first = open_runtime(frozen, SIDE, CPU, tmp_path)(shown)
    assert torch.equal(open_runtime(frozen, SIDE, CPU, tmp_path)(shown), first)
    assert len(made) == 1
    (file,) = (tmp_path / "graphs").iterdir()
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    assert torch.equal(open_runtime(frozen, SIDE, CPU, tmp_path)(shown), first)
    assert len(made) == 2


def test_a_graph_that_cannot_be_kept_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's features differ in the last digits: a full disk must not lead to them."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(feature_runtime, "atomic_write_bytes", full)
    assert isinstance(open_runtime(built_in(tmp_path), SIDE, CPU, tmp_path), OnnxRuntime)


def test_other_nets_and_other_devices_are_left_to_pytorch(tmp_path: Path) -> None:
    assert isinstance(open_runtime(backbone(), SIDE, CPU, tmp_path), TorchRuntime)
    meta = open_runtime(built_in(tmp_path), SIDE, torch.device("meta"), tmp_path)
    assert isinstance(meta, TorchRuntime)
    assert not (tmp_path / "graphs").exists()


@pytest.mark.parametrize("absent", ["onnxruntime", "onnx", "onnxscript"])
def test_without_a_package_pytorch_computes_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == absent else find(n))
    assert isinstance(open_runtime(built_in(tmp_path), SIDE, CPU, tmp_path), TorchRuntime)


def test_packages_that_do_not_work_are_told_of_and_done_without(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> object:
        raise RuntimeError("this version has no such operator")

    monkeypatch.setattr("surelabel.engines.feature_runtime.onnx_program", fails)
    frozen = built_in(tmp_path)
    with pytest.warns(UserWarning, match="no such operator"):
        runtime = open_runtime(frozen, SIDE, CPU, tmp_path)
    assert isinstance(runtime, TorchRuntime)
    features = features_of(catalog, tmp_path / "pixels", tmp_path, frozen)
    assert features.runtime.name == runtime.name
