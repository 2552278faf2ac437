from __future__ import annotations

import threading

import torch
from torch import Tensor, nn

from surelabel.training.replicas import ALONE, Replica
from surelabel.types import derive_seed


def in_threads(n: int) -> list[Replica]:
    """Replicas that meet in this process."""
    barrier, shared = threading.Barrier(n), [torch.empty(0)] * n

    def replica(rank: int) -> Replica:
        def average(tensor: Tensor) -> None:
            shared[rank] = tensor.clone()
            barrier.wait(10)
            tensor.copy_(torch.stack(list(shared)).mean(0))
            barrier.wait(10)

        return Replica(rank, n, average)

    return [replica(rank) for rank in range(n)]


def test_the_parts_of_a_batch_are_the_batch() -> None:
    batch = torch.arange(13)
    parts = [replica.part(batch) for replica in in_threads(3)]
    assert sorted(torch.cat(parts).tolist()) == batch.tolist()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert torch.equal(ALONE.part(batch), batch)


def test_a_step_of_two_replicas_is_the_step_of_one_net_with_the_whole_batch() -> None:
    torch.manual_seed(0)
    inputs, targets = torch.randn(8, 3), torch.randn(8, 2)
    nets = [nn.Linear(3, 2) for _ in range(3)]
    for net in nets[1:]:
        net.load_state_dict(nets[0].state_dict())
    replicas = in_threads(2)

    def step(net: nn.Module, replica: Replica) -> None:
        rows = replica.part(torch.arange(8))
        loss = (net(inputs[rows]) - targets[rows]).square().mean()
        loss.backward()
        replica.average_gradients(net)

    step(nets[0], ALONE)
    threads = [threading.Thread(target=step, args=(nets[1 + r.rank], r)) for r in replicas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for weight, one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert weight.grad is not None
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad), "replicas stay equal"
        torch.testing.assert_close(one.grad, weight.grad)


def test_random_numbers_differ_between_replicas_and_not_without_them() -> None:
    one, other = in_threads(2)
    assert one.seed(5, 3) != other.seed(5, 3)
    assert ALONE.seed(5, 3) == derive_seed(5, "step", 3)
    assert ALONE.mean(2.5) == 2.5
