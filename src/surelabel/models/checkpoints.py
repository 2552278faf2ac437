"""Public checkpoints: read without running their code, and loaded by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from surelabel.errors import InputError

#: What training scripts wrap their weights in.
_WRAPPERS = ("state_dict", "model", "model_state_dict")
#: Names of classifiers, which backbones here do without.
_HEADS = ("classifier.", "_fc.", "fc.", "head.", "AuxLogits.")


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors, .pth or .pt file; nothing in the file is executed."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file of weights.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        values = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise InputError(f"{path} may not be read: change its permissions.") from None
    except Exception:  # a damaged file makes the readers fail in any way
        raise InputError(
            f"{path} is not a file of weights that can be read safely: it has to be a whole "
            ".safetensors file, or a .pth file that holds tensors and nothing else."
        ) from None
    return _tensors(values, path)


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


def load_checkpoint(
    net: nn.Module, weights: Mapping[str, Tensor], where: str, heads: tuple[str, ...] = ()
) -> None:
    """Load by name, or say what does not fit.

    A classifier that ``net`` lacks is left out: what begins with a usual name, or with ``heads``.
    """
    own, aside = net.state_dict(), (*_HEADS, *heads)
    given = {n: v for n, v in weights.items() if n in own or not n.startswith(aside)}
    wanted = {n for n in own if "num_batches" not in n}
    lacking, strange = sorted(wanted - given.keys()), sorted(given.keys() - own.keys())
    if lacking or strange:
        told = f"it lacks {lacking[0]}" if lacking else f"it has {strange[0]}"
        raise InputError(
            f"{where} holds the weights of another net: {told} (and {len(lacking)} names are "
            f"lacking, {len(strange)} unknown). Name the net that the file is of."
        )
    for name, value in given.items():
        if own[name].shape != value.shape:
            raise InputError(
                f"{where} holds the weights of another net: {name} has the shape "
                f"{tuple(value.shape)}, not {tuple(own[name].shape)}."
            )
    net.load_state_dict({**own, **given})


def weights_digest(net: nn.Module, *facts: object) -> str:
    """32 hexadecimal digits that change with any weight, name or fact."""
    total = hashlib.blake2b(repr(facts).encode(), digest_size=16)
    for name, value in sorted(net.state_dict().items()):
        if "num_batches" not in name:
            total.update(name.encode())
            total.update(value.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
