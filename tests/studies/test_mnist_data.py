from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from study_data import HAS_MNIST, MNIST, small_digits, write_idx_folder

from surelabel.errors import InputError
from surelabel_studies.datasets.mnist import DIGESTS, download_mnist, load_mnist, read_mnist


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server of a folder on this machine."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    handler = functools.partial(QuietHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", folder
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("zipped", [True, False])
def test_four_idx_files_are_read_gzipped_or_not(tmp_path: Path, zipped: bool) -> None:
    digits = small_digits()
    digests = write_idx_folder(tmp_path, digits, zipped=zipped)
    read = read_mnist(tmp_path, digests)
    assert (read.train_images == digits.train_images).all()
    assert read.train_labels.tolist() == digits.train_labels.tolist()
    assert (read.test_images == digits.test_images).all()
    assert read.test_labels.tolist() == digits.test_labels.tolist()


def test_files_that_are_not_mnist_are_refused_by_their_digest(tmp_path: Path) -> None:
    write_idx_folder(tmp_path, small_digits())
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\.gz is not MNIST's") as error:
        load_mnist(tmp_path)
    assert DIGESTS["train-images-idx3-ubyte"][:16] in str(error.value)


def test_a_folder_without_mnist_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        load_mnist(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no train-images-idx3-ubyte\.gz .* --data"):
        load_mnist(tmp_path)


def test_a_cut_download_gets_a_sentence(tmp_path: Path) -> None:
    digests = write_idx_folder(tmp_path, small_digits())
    file = tmp_path / "t10k-labels-idx1-ubyte.gz"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(InputError, match="Is the download complete"):
        read_mnist(tmp_path, digests)


def test_a_download_goes_to_the_next_mirror_and_is_kept(
    tmp_path: Path, mirror: tuple[str, Path]
) -> None:
    url, folder = mirror
    digests = write_idx_folder(folder, small_digits())
    zipped = {n: hashlib.sha256((folder / f"{n}.gz").read_bytes()).hexdigest() for n in digests}
    target = tmp_path / "cache"
    download_mnist(target, ("http://127.0.0.1:9/", url), zipped)
    assert len(read_mnist(target, digests).train_images) == 1597
    download_mnist(target, ("http://127.0.0.1:9/",), zipped)


def test_a_mirror_that_serves_something_else_is_not_believed(
    tmp_path: Path, mirror: tuple[str, Path]
) -> None:
    url, folder = mirror
    write_idx_folder(folder, small_digits())
    with pytest.raises(InputError, match="SHA-256 is wrong"):
        download_mnist(tmp_path / "cache", (url,))
    assert not list((tmp_path / "cache").glob("*.gz"))


def test_without_a_network_the_sentence_points_to_data(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9/train-images.*Error.* --data"):
        download_mnist(tmp_path, ("http://127.0.0.1:9/",))


@pytest.mark.skipif(not HAS_MNIST, reason=f"MNIST is not in {MNIST}")
def test_the_real_files_have_the_digests_in_the_code() -> None:
    digits = load_mnist(MNIST)
    assert digits.train_images.shape == (60_000, 28, 28)
    assert digits.test_images.shape == (10_000, 28, 28)
    assert len(digits.train_labels) == 60_000
    assert sorted(set(digits.test_labels.tolist())) == list(range(10))
