from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from engine_data import tiny
from safetensors.torch import save_file

from surelabel.engines.storage import FileCheckpoints, load_net, read_tensors, save_net
from surelabel.errors import RunDamagedError
from surelabel.models.nets import build_net

SHAPE = {"size": 8, "channels": 1, "n_classes": 3, "k": 0}


@pytest.fixture(name="path")
def fixture_path(tmp_path: Path) -> Path:
    path = tmp_path / "weights-0.safetensors"
    net = build_net(tiny(), **SHAPE, generator=torch.Generator().manual_seed(1))
    net.pixel_mean, net.pixel_std = torch.tensor([31.0]), torch.tensor([7.0])
    save_net(path, net, {**SHAPE, "steps": 24})
    return path


def test_a_saved_net_comes_back_with_what_was_said_about_it(path: Path) -> None:
    net, about = load_net(path, tiny())
    assert about == {**SHAPE, "steps": 24}
    assert not net.training
    images = torch.randint(0, 255, (5, 1, 8, 8), dtype=torch.uint8)
    again, _ = load_net(path, tiny())
    assert torch.equal(net(net.standardize(images)), again(again.standardize(images)))
    white = net.standardize(torch.full((1, 1, 8, 8), 38, dtype=torch.uint8))
    assert torch.equal(white, torch.ones(1, 1, 8, 8)), "(38 - 31) / 7"


def test_no_file_is_left_beside_the_weights(path: Path) -> None:
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("what", ["garbage", "empty", "cut", "missing"])
def test_a_damaged_weights_file_gets_a_sentence(path: Path, what: str) -> None:
    whole = path.read_bytes()
    if what == "missing":
        path.unlink()
    else:
        path.write_bytes({"garbage": b"\x80\x04K." * 99, "empty": b"", "cut": whole[:-40]}[what])
    with pytest.raises(RunDamagedError, match="cannot be read as weights") as caught:
        load_net(path, tiny())
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("about", [None, "no json", json.dumps({"size": 8})])
def test_weights_of_another_program_get_a_sentence(path: Path, about: str | None) -> None:
    metadata = None if about is None else {"about": about}
    save_file({"weight": torch.ones(3)}, path, metadata=metadata)
    with pytest.raises(RunDamagedError, match=path.name):
        load_net(path, tiny())


def test_weights_of_another_net_get_a_sentence(path: Path) -> None:
    tensors, _ = read_tensors(path)
    net = build_net(tiny(), **{**SHAPE, "n_classes": 4}, generator=torch.Generator())
    save_net(path, net, SHAPE)
    with pytest.raises(RunDamagedError, match="do not fit"):
        load_net(path, tiny())
    assert "tail.out.weight" in tensors


def test_a_checkpoint_is_renewed_and_removed(tmp_path: Path) -> None:
    checkpoints = FileCheckpoints(tmp_path / "member-0.safetensors", seconds=0.0)
    assert checkpoints.load() is None
    assert checkpoints.due(1)
    checkpoints.save(1, {"a": torch.zeros(2)})
    checkpoints.save(2, {"a": torch.ones(2)})
    saved = checkpoints.load()
    assert saved is not None
    assert saved[0] == 2
    assert torch.equal(saved[1]["a"], torch.ones(2))
    checkpoints.remove()
    assert checkpoints.load() is None
    checkpoints.remove()


def test_a_checkpoint_is_not_due_before_its_time(tmp_path: Path) -> None:
    assert not FileCheckpoints(tmp_path / "member-0.safetensors", seconds=1000.0).due(1)
