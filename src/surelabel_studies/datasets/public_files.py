"""Files of public datasets: downloaded from mirrors or read from a folder, checked by SHA-256."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surelabel.errors import InputError


@dataclass(frozen=True)
class PublicFiles:
    """A dataset, and the option that names the folder with its files."""

    name: str
    option: str
    """The command-line option."""
    what: str
    """Its files, as a phrase."""

    def fetch(self, folder: Path, mirrors: Sequence[str], digests: Mapping[str, str]) -> Path:
        """Download the gzipped files that ``folder`` does not have yet; returns ``folder``."""
        try:
            import pooch
        except ImportError:
            raise InputError(
                f"Downloading {self.name} needs pooch: pip install 'surelabel[studies]', or give "
                f"the folder with {self.what} as {self.option}."
            ) from None
        pooch.get_logger().setLevel("ERROR")
        for name, digest in digests.items():
            failures = []
            for mirror in mirrors:
                url = f"{mirror}{name}.gz"
                try:
                    pooch.retrieve(url, f"sha256:{digest}", fname=f"{name}.gz", path=folder)
                    break
                except (OSError, ValueError) as error:
                    failures.append(f"{url} ({_short(error)})")
            else:
                raise InputError(
                    f"{self.name} cannot be downloaded: {'; '.join(failures)}. Give the folder "
                    f"with {self.what} as {self.option}."
                )
        return folder

    def find(self, folder: Path, name: str) -> Path:
        """The file in ``folder``, gzipped or not."""
        if not folder.is_dir():
            raise InputError(
                f"{folder}: there is no such folder. {self.option} names the one with {self.name}."
            )
        there = [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()]
        if not there:
            raise InputError(
                f"{folder} has no {name}.gz (or {name}). {self.option} names the folder with "
                f"{self.name}: {self.what}."
            )
        return there[0]

    def checked(self, path: Path, name: str, digest: str) -> bytes:
        """The unpacked content of the file, which must have this ``digest``."""
        try:
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} cannot be read: {error}. Is the download complete?") from None
        actual = hashlib.sha256(content).hexdigest()
        if actual != digest:
            raise InputError(
                f"{path} is not {self.name}'s {name}: its content has the SHA-256 "
                f"{actual[:16]}..., and {self.name}'s is {digest[:16]}.... Download it again."
            )
        return content


def _short(error: Exception) -> str:
    """The kind of failure; the text of a network error is a page long."""
    return "its SHA-256 is wrong" if isinstance(error, ValueError) else type(error).__name__
