from __future__ import annotations

import pytest

from surelabel.dataset.decode import choose_size


@pytest.mark.parametrize(
    ("shapes", "side"),
    [
        ([(28, 28), (28, 28)], 28),
        ([(16, 16)], 16),
        ([(64, 64)], 64),
        ([(65, 65)], 64),
        ([(640, 480)], 64),
        ([(28, 20)], 64),
        ([(28, 28), (32, 32)], 64),
        ([(8, 8)], 24),
        ([(8, 5)], 24),
        ([(15, 15)], 30),
        ([(12, 12)], 24),
        ([(1, 1)], 24),
        ([], 64),
    ],
)
def test_the_side_follows_the_shapes(shapes: list[tuple[int, int]], side: int) -> None:
    assert choose_size(shapes) == side
