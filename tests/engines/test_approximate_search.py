from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from surelabel.engines import approximate_search as module
from surelabel.engines.approximate_search import approximate_search, exact_nearest

N, DIMENSIONS = 4000, 24


@pytest.fixture
def vectors() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = 2 * torch.randn(40, DIMENSIONS, generator=generator)
    noise = torch.randn(N, DIMENSIONS, generator=generator)
    return functional.normalize(centers[torch.arange(N) % 40] + noise, dim=1)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(module, "LARGE", N)
    monkeypatch.setattr(module, "_CELLS", 16)
    monkeypatch.setattr(module, "_PROBED", 4)


def test_collections_up_to_the_limit_are_searched_exactly(vectors: Tensor) -> None:
    assert approximate_search(vectors.__getitem__, torch.arange(N), N) is None
    assert approximate_search(vectors.__getitem__, torch.arange(N), N + 1) is not None


def test_most_neighbors_are_found_and_own_copies_do_not_count(vectors: Tensor) -> None:
    units = torch.arange(N)
    search = approximate_search(vectors.__getitem__, units, N + 1)
    assert search is not None
    queries, own = vectors[:200], units[:200]
    near, places = search.nearest(queries, own, 10, excluded=0.0)
    exact, expected = exact_nearest(queries, vectors, own, units, 10, excluded=0.0)
    found = [len(set(a) & set(b)) for a, b in zip(places.tolist(), expected.tolist(), strict=True)]
    assert sum(found) / (10 * len(found)) > 0.95
    assert (places != own[:, None]).all()
    assert (near[:, 0] <= exact[:, 0] + 1e-5).all()
    assert (near[:, :-1] >= near[:, 1:]).all()


def test_a_group_that_hides_all_neighbors_is_searched_exactly(vectors: Tensor) -> None:
    units = torch.arange(N) % 40  # the images around one center
    search = approximate_search(vectors.__getitem__, units, N + 1)
    assert search is not None
    got = search.nearest(vectors[:50], units[:50], 10, excluded=0.0)
    wanted = exact_nearest(vectors[:50], vectors, units[:50], units, 10, excluded=0.0)
    similar = [set(row.tolist()) for row in got[1]]
    assert all(
        (units[list(row)] != unit).all() for row, unit in zip(similar, units[:50], strict=True)
    )
    assert torch.allclose(got[0][:, 0], wanted[0][:, 0], atol=0.2)


def test_each_query_gets_its_own_neighbors_in_any_order(vectors: Tensor) -> None:
    units = torch.arange(N)
    search = approximate_search(vectors.__getitem__, units, N + 1)
    assert search is not None
    mixed = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    near, places = search.nearest(vectors[:300], units[:300], 10, excluded=0.0)
    again = search.nearest(vectors[mixed], units[mixed], 10, excluded=0.0)
    assert torch.equal(again[0], near[mixed])
    assert torch.equal(again[1], places[mixed])
