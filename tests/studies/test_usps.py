from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from surelabel.errors import InputError
from surelabel_studies.datasets.usps import enlarge, read_usps

USPS = Path(__file__).resolve().parents[3] / "shared" / "data" / "usps"


def lines_of(labels: list[int]) -> bytes:
    """Each image has ink (1) in as many of its first pixels as its class says."""
    rows = [[label, *([1.0] * label), *([-1.0] * (256 - label))] for label in labels]
    return "\n".join(" ".join(f"{v:.4f}" for v in row) for row in rows).encode()


def write(folder: Path, contents: dict[str, bytes], *, zipped: bool = True) -> dict[str, str]:
    for name, content in contents.items():
        path = folder / (f"{name}.gz" if zipped else name)
        path.write_bytes(gzip.compress(content) if zipped else content)
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


@pytest.mark.parametrize("zipped", [True, False])
def test_both_files_are_read_and_enlarged(tmp_path: Path, zipped: bool) -> None:
    contents = {"zip.train": lines_of([0, 3, 9]), "zip.test": lines_of([5])}
    digits = read_usps(tmp_path, write(tmp_path, contents, zipped=zipped))
    assert digits.train_images.shape == (3, 28, 28)
    assert digits.train_labels.tolist() == [0, 3, 9]
    assert digits.test_labels.tolist() == [5]
    assert digits.train_images[0].max() == 0
    ink = digits.train_images.sum(axis=(1, 2))
    assert 0 < ink[1] < ink[2]


def test_a_black_corner_stays_a_black_corner() -> None:
    small = np.zeros((1, 16, 16), dtype=np.uint8)
    small[0, :8, :8] = 255
    large = enlarge(small, 28)[0]
    assert (large[:12, :12] == 255).all()
    assert not large[16:].any()


def test_other_files_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no zip\.train\.gz"):
        read_usps(tmp_path)
    digests = write(tmp_path, {"zip.train": b"1 2 3", "zip.test": lines_of([5])})
    with pytest.raises(InputError, match="256 values"):
        read_usps(tmp_path, digests)
    with pytest.raises(InputError, match="is not USPS's"):
        read_usps(tmp_path)
    (tmp_path / "zip.train.gz").write_bytes(gzip.compress(b"1 2 3")[:-9])
    with pytest.raises(InputError, match="cannot be read"):
        read_usps(tmp_path, digests)


@pytest.mark.skipif(not USPS.is_dir(), reason="USPS is not in ../shared/data/usps")
def test_the_real_files_are_those_that_are_known() -> None:
    digits = read_usps(USPS)
    assert len(digits.train_labels) == 7291
    assert len(digits.test_labels) == 2007
    assert set(np.unique(digits.test_labels)) == set(range(10))
