"""The state of a training run as named tensors, so that a resumed run continues exactly.

The random numbers of a step are a function of the step, so no generator has to be saved.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from surelabel.errors import RunDamagedError

_OPTIMIZER = "optimizer"


def pack_state(
    modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Weights and buffers under ``module/name``, the optimizer's under ``optimizer/i/name``."""
    packed = {
        f"{module}/{name}": value.detach().contiguous()
        for module, net in modules.items()
        for name, value in net.state_dict().items()
    }
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            if value is not None:
                packed[f"{_OPTIMIZER}/{index}/{name}"] = torch.as_tensor(value).contiguous()
    return packed


def unpack_state(
    packed: Mapping[str, Tensor],
    modules: Mapping[str, nn.Module],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Load a packed state into modules and an optimizer of the same shapes."""
    for module, net in modules.items():
        own = {
            k.removeprefix(f"{module}/"): v for k, v in packed.items() if k.startswith(f"{module}/")
        }
        load_state(net, own)
    full = optimizer.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in packed.items():
        if key.startswith(f"{_OPTIMIZER}/"):
            _, index, name = key.split("/")
            state.setdefault(int(index), {})[name] = value
    full["state"] = state
    optimizer.load_state_dict(full)


def load_state(net: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load weights by name; weights of another net are refused."""
    try:
        net.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise RunDamagedError(f"The saved weights do not fit the network: {error}") from None
