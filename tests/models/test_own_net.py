"""The net of the docs page, as a user would bring it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

import surelabel
from surelabel.config.settings import Config
from surelabel.errors import OptionError, RunError
from surelabel.models.backbones import load_backbone

PAGE = Path(__file__).parents[2] / "docs" / "own-net.md"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module of the page, on the Python path."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "leafnet.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "leafnet", raising=False)
    return "leafnet"


def test_the_net_of_the_page_labels_and_predicts(tmp_path: Path, module: str) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    images = rng.integers(0, 120, (60, 64, 64, 3)).astype(np.uint8)
    images[truth == 0, ..., 0] += 90
    run = surelabel.label(
        images,
        labels=np.where(np.arange(60) < 30, truth, -1),
        out=tmp_path / "run",
        cache=str(tmp_path / "cache"),
        net=f"{module}:LeafNet",
        max_rounds=1,
        mc_samples=3,
        accept="tukey",
    )
    assert run.config.net == "leafnet:LeafNet"
    table = run.predict(images[30:])
    assert (table["guess"].to_numpy() == truth[30:].astype(str)).mean() > 0.9
    (cached,) = (tmp_path / "cache").glob("features-*-64-bicubic")
    assert cached.is_dir()

    code = tmp_path / "leafnet.py"
    code.write_text(code.read_text().replace("manual_seed(0)", "manual_seed(1)"))
    sys.modules.pop(module)
    with pytest.raises(RunError, match="other weights"):
        run.predict(images[30:])


def test_weights_come_from_a_file(tmp_path: Path, module: str) -> None:
    first = load_backbone(Config(net=f"{module}:LeafNet"))
    net = sys.modules[module].LeafNet()
    changed = {name: value + 1 for name, value in net.state_dict().items()}
    save_file(changed, tmp_path / "w.safetensors")
    path = str(tmp_path / "w.safetensors")
    second = load_backbone(Config(net=f"{module}:LeafNet", net_weights=path))
    assert first.digest != second.digest
    assert first.layers is not None
    assert first.layers.sizes == (32, 16)
    assert first.layers.depths == (0, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Net", "nowhere"),
        (".leafnet:Net", "cannot be imported"),
        (":Net", "cannot be imported"),
        ("leafnet:Missing", "Missing"),
        ("leafnet:nn", "nn"),
        ("torch.nn:Flatten", "input_spec and features"),
    ],
)
def test_what_is_no_such_net_is_refused(module: str, name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load_backbone(Config(net=name))
