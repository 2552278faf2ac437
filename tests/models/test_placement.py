"""What a GPU gets beyond the processor; its code runs here on the processor."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from surelabel.models.placement import Placement

CPU = torch.device("cpu")


def test_a_gpu_gets_mixed_precision_and_pinned_memory_and_the_processor_does_not() -> None:
    gpu, processor = Placement.on(torch.device("cuda", 0)), Placement.on(CPU)
    assert (gpu.mixed_precision, gpu.pinned_memory) == (True, True)
    assert (processor.mixed_precision, processor.pinned_memory) == (False, False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_are_computed_in_half_precision_where_mixed(dtype: torch.dtype) -> None:
    layer, inputs = nn.Linear(8, 4), torch.randn(3, 8)
    with Placement(CPU, mixed_precision=True).autocast(dtype):
        assert layer(inputs).dtype == dtype
    with Placement(CPU).autocast(dtype):
        assert layer(inputs).dtype == torch.float32


def test_moving_keeps_values_and_pins_only_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[Tensor] = []

    def pin(tensor: Tensor) -> Tensor:  # real pinning needs a GPU
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    values = torch.arange(6.0)
    assert torch.equal(Placement(CPU).move(values), values)
    assert not pinned
    assert torch.equal(Placement(CPU, pinned_memory=True).move(values), values)
    assert len(pinned) == 1
    on_meta = Placement(torch.device("meta")).move(values)
    assert on_meta.device.type == "meta"
