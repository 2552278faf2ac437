"""Files of pre-trained weights: read without running code from them, and loaded by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from surelabel.errors import InputError

_WRAPPERS = ("state_dict", "model", "model_state_dict")
"""Keys under which training scripts store the weights."""
_CLASSIFIERS = ("classifier.", "_fc.", "fc.", "head.", "AuxLogits.")
"""Common prefixes of a classifier's parameters, which a backbone does not have."""
_NO_WEIGHT = "num_batches"
"""Batch norm's counters, which older files lack."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors, .pth or .pt file by name; nothing in the file is executed."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file of weights.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        values = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise InputError(f"{path} cannot be read: change its permissions.") from None
    except Exception:  # a damaged file can make the readers fail in any way
        raise InputError(
            f"{path} is not a file of weights that can be read safely: it has to be a complete "
            ".safetensors file, or a .pth file that holds only tensors."
        ) from None
    return _tensors(values, path)


def load_weights(
    net: nn.Module, weights: Mapping[str, Tensor], source: str, classifiers: tuple[str, ...] = ()
) -> None:
    """Load weights by name, or say what does not fit; ``source`` names them in messages.

    A classifier that ``net`` does not have is left out. It is known by the common prefixes and
    those in ``classifiers``.
    """
    own, left_out = net.state_dict(), (*_CLASSIFIERS, *classifiers)
    given = {n: v for n, v in weights.items() if n in own or not n.startswith(left_out)}
    expected = {n for n in own if _NO_WEIGHT not in n}
    missing, unknown = sorted(expected - given.keys()), sorted(given.keys() - own.keys())
    if missing or unknown:
        example = f"it lacks {missing[0]}" if missing else f"it has {unknown[0]}"
        raise InputError(
            f"{source} holds the weights of another net: {example} ({len(missing)} names are "
            f"missing, {len(unknown)} unknown). Name the net that the file belongs to."
        )
    for name, value in given.items():
        if own[name].shape != value.shape:
            raise InputError(
                f"{source} holds the weights of another net: {name} has the shape "
                f"{tuple(value.shape)}, not {tuple(own[name].shape)}."
            )
    net.load_state_dict({**own, **given})


def weights_digest(net: nn.Module, *facts: object) -> str:
    """32 hexadecimal digits that change with any weight, name or fact."""
    total = hashlib.blake2b(repr(facts).encode(), digest_size=16)
    for name, value in sorted(net.state_dict().items()):
        if _NO_WEIGHT not in name:
            total.update(name.encode())
            total.update(value.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def _tensors(values: object, path: Path) -> dict[str, Tensor]:
    while isinstance(values, Mapping) and any(name in values for name in _WRAPPERS):
        values = next(values[name] for name in _WRAPPERS if name in values)
    if not isinstance(values, Mapping):
        raise InputError(f"{path} holds no weights by name: save the net's state_dict in it.")
    return {
        str(name).removeprefix("module."): value
        for name, value in values.items()
        if isinstance(value, Tensor)
    }
