"""Tensor parallelism by hand: linear layers divided by columns or rows, and one all-reduce behind each pair.

    x --+--> columns of W1, rank 0 --> rows of W2, rank 0 --+
        |                                                   +--> all-reduce --> the same y on every rank
        +--> columns of W1, rank 1 --> rows of W2, rank 1 --+

A layer divided by columns gives each rank a part of the outputs; a layer divided by rows takes that part and
gives each rank a summand of every output. Attention (heads are columns) and the MLP are such pairs, so a
decoder layer all-reduces twice. Biases, which Llama does not have, are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import LlamaForCausalLM

Allocate = Callable[[tuple[int, ...]], Tensor]


class ColumnParallelLinear(nn.Module):
    """This rank's part of a linear layer's outputs."""

    def __init__(self, whole: nn.Linear, group: dist.ProcessGroup | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(_part(whole.weight, 0, group), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


class RowParallelLinear(nn.Module):
    """All outputs of a linear layer, added up over the ranks, each of which has a part of the inputs.

    With `allocate`, outputs lie in memory that it gives, one place for each shape, which the layer's next
    call uses again.
    """

    def __init__(
        self, whole: nn.Linear, group: dist.ProcessGroup | None, allocate: Allocate | None = None
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(_part(whole.weight, 1, group), requires_grad=False)
        self.group = group
        self.allocate = allocate
        self.places: dict[tuple[int, ...], Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if self.allocate is None:
            y = nn.functional.linear(x, self.weight)
        else:
            y = self._place((*x.shape[:-1], self.weight.shape[0]), self.allocate)
            torch.mm(x.flatten(0, -2), self.weight.t(), out=y.view(-1, y.shape[-1]))
        dist.all_reduce(y, group=self.group)
        return y

    def _place(self, shape: tuple[int, ...], allocate: Allocate) -> Tensor:
        if shape not in self.places:
            self.places[shape] = allocate(shape)
        return self.places[shape]


def parallelise(
    model: LlamaForCausalLM, group: dist.ProcessGroup | None = None, allocate: Allocate | None = None
) -> None:
    """Divides the decoder layers of a Llama among the ranks of `group`; embedding and scores stay whole."""
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for owner, names in [(attention, ("q_proj", "k_proj", "v_proj")), (mlp, ("gate_proj", "up_proj"))]:
            for name in names:
                setattr(owner, name, ColumnParallelLinear(getattr(owner, name), group))
        attention.o_proj = RowParallelLinear(attention.o_proj, group, allocate)
        mlp.down_proj = RowParallelLinear(mlp.down_proj, group, allocate)


def _part(whole: Tensor, dim: int, group: dist.ProcessGroup | None) -> Tensor:
    ranks = dist.get_world_size(group)
    if whole.shape[dim] % ranks:
        raise ValueError(
            f"{ranks} ranks cannot share {whole.shape[dim]} features evenly; choose a size that they divide"
        )
    return whole.detach().chunk(ranks, dim)[dist.get_rank(group)].clone()
