from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from surelabel.training.augmentation import STRONG, Augmentation, augment, shift_maps

NONE = Augmentation(0, 0, 0, 0, 0, 0, 0)
SOME = Augmentation(20, 0.2, 0.2, 0.1, 0.05, 0.3, 0.3)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def photos(n: int = 6, channels: int = 3, height: int = 12, width: int = 12) -> Tensor:
    return torch.randn(n, channels, height, width, generator=generator(8))


def test_without_any_range_nothing_changes() -> None:
    images = photos()
    torch.testing.assert_close(augment(images, NONE, generator()), images, rtol=0, atol=1e-4)


@pytest.mark.parametrize("part", [field.name for field in dataclasses.fields(Augmentation)])
def test_each_part_changes_the_image_by_itself(part: str) -> None:
    images = photos()
    only = dataclasses.replace(NONE, **{part: getattr(SOME, part)})
    assert not torch.allclose(augment(images, only, generator()), images, atol=1e-2)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 10, 14)])
def test_shape_and_kind_are_kept(channels: int, height: int, width: int) -> None:
    images = photos(2, channels, height, width)
    out = augment(images, SOME, generator(), flips=True)
    assert out.shape == images.shape
    assert out.dtype == images.dtype
    assert torch.isfinite(out).all()


def test_the_given_images_are_left_as_they_are() -> None:
    images = photos()
    before = images.clone()
    augment(images, SOME, generator(), flips=True)
    assert torch.equal(images, before)


def test_the_generator_decides_everything() -> None:
    images = photos()
    torch.manual_seed(1)
    first = augment(images, SOME, generator(1), flips=True)
    torch.manual_seed(2)
    again = augment(images, SOME, generator(1), flips=True)
    assert torch.equal(first, again)
    assert not torch.equal(first, augment(images, SOME, generator(2), flips=True))


def test_each_image_gets_its_own_augmentation() -> None:
    images = photos(1).expand(5, -1, -1, -1)
    out = augment(images, STRONG, generator())
    for i in range(5):
        for j in range(i):
            assert not torch.allclose(out[i], out[j], atol=1e-2)


def test_an_image_is_augmented_without_regard_to_the_rest_of_its_batch() -> None:
    images = photos()
    others = torch.cat([images[:1], torch.zeros_like(images[1:])])
    torch.testing.assert_close(
        augment(images, SOME, generator())[0], augment(others, SOME, generator())[0]
    )


def _is_close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=1e-4)


def test_flips_mirror_about_half_of_the_images_left_to_right_and_only_with_the_flag() -> None:
    images = photos(40)
    out = augment(images, NONE, generator(), flips=True)
    mirrored = [_is_close(o, i.flip(-1)) for o, i in zip(out, images, strict=True)]
    same = [_is_close(o, i) for o, i in zip(out, images, strict=True)]
    assert all(m != s for m, s in zip(mirrored, same, strict=True))
    assert 10 <= sum(mirrored) <= 30
    left, right = photos(40).clone(), augment(photos(40), NONE, generator(), flips=False)
    assert _is_close(left, right)


def test_a_shift_moves_by_at_most_its_share_of_the_side() -> None:
    images = torch.zeros(30, 1, 20, 20)
    images[:, :, :, 10:] = 1.0
    out = augment(images, dataclasses.replace(NONE, shift=0.1), generator())
    bright = out.mean(dim=(1, 2, 3))
    assert float(bright.max()) <= 0.6 + 1e-4
    assert float(bright.min()) >= 0.4 - 1e-4
    assert float(bright.max() - bright.min()) > 0.1


def test_a_rotation_turns_by_at_most_its_degrees_and_keeps_the_center() -> None:
    images = torch.zeros(20, 1, 21, 21)
    images[:, :, 9:12, 9:12] = 1.0
    out = augment(images, dataclasses.replace(NONE, rotation=10), generator())
    torch.testing.assert_close(out[:, :, 10, 10], torch.ones(20, 1))
    bar = torch.zeros(20, 1, 21, 21)
    bar[:, :, :, 10] = 1.0
    turned = augment(bar, dataclasses.replace(NONE, rotation=10), generator())
    top = turned[:, 0, 0].argmax(dim=1) - 10
    assert int(top.abs().max()) <= 2
    assert len(set(top.tolist())) > 2


def test_contrast_keeps_the_mean_and_brightness_moves_it() -> None:
    images = photos()
    mean = images.mean(dim=(1, 2, 3))
    stretched = augment(images, dataclasses.replace(NONE, contrast=0.5), generator())
    torch.testing.assert_close(stretched.mean(dim=(1, 2, 3)), mean, rtol=0, atol=1e-4)
    moved = augment(images, dataclasses.replace(NONE, brightness=0.5), generator())
    offset = moved.mean(dim=(1, 2, 3)) - mean
    assert float(offset.abs().max()) <= 0.5 + 1e-4
    assert len(set(offset.tolist())) == len(images)


def test_maps_are_moved_by_whole_cells_and_their_border_repeated() -> None:
    rows = torch.arange(20.0).view(1, 1, 20, 1).expand(300, 1, 20, 10)
    columns = torch.arange(10.0).view(1, 1, 1, 10).expand(300, 1, 20, 10)
    moved = shift_maps(torch.cat([rows, columns], dim=1), generator())
    down = moved[:, 0, 10, 5] - 10
    across = moved[:, 1, 10, 5] - 5
    assert set(down.tolist()) == {-2, -1, 0, 1, 2}
    assert set(across.tolist()) == {-1, 0, 1}
    expected = (rows[:, 0] + down.view(-1, 1, 1)).clamp(0, 19)
    assert torch.equal(moved[:, 0], expected)
    assert torch.equal(moved[:, 1], (columns[:, 0] + across.view(-1, 1, 1)).clamp(0, 9))
