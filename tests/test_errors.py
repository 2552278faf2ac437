"""Which exceptions say that memory is short; `make faults` provokes real ones."""

from __future__ import annotations

import errno

import pytest
import torch

from surelabel.errors import RunError, is_out_of_memory


def test_what_pytorch_raises_when_it_cannot_allocate() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
    ],
)
def test_memory_errors_also_behind_another_error(error: Exception) -> None:
    assert is_out_of_memory(error)
    outer = RunError("the net of member 1 failed")
    outer.__cause__ = error
    assert is_out_of_memory(outer)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "x"), RuntimeError("mat1 and mat2")])
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_out_of_memory(error)
