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
from dataclasses import dataclass

from transformers import LlamaForCausalLM

import torch
from torch import Tensor, nn

Allocate = Callable[[tuple[int, ...]], Tensor]


@dataclass(frozen=True)
class Team:
    """The ranks that share a model: which one this is, and how they add up a tensor, in place."""

    rank: int
    ranks: int
    all_reduce: Callable[[Tensor], object]

    def part(self, whole: Tensor, dim: int) -> Tensor:
        """This rank's part of a tensor that is divided along a dimension."""
        if whole.shape[dim] % self.ranks:
            raise ValueError(
                f"{self.ranks} ranks cannot share {whole.shape[dim]} features evenly; "
                "choose a size that they divide"
            )
        return whole.detach().chunk(self.ranks, dim)[self.rank].clone()


class ColumnParallelLinear(nn.Module):
    """This rank's part of a linear layer's outputs."""

    def __init__(self, whole: nn.Linear, team: Team) -> None:
        super().__init__()
        self.weight = nn.Parameter(team.part(whole.weight, 0), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


class RowParallelLinear(nn.Module):
    """All outputs of a linear layer, added up over the ranks, each of which has a part of the inputs.

    With `allocate`, outputs lie in memory that it gives, one place for each shape, which the layer's next
    call uses again.
    """

    def __init__(self, whole: nn.Linear, team: Team, allocate: Allocate | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(team.part(whole.weight, 1), requires_grad=False)
        self.team = team
        self.allocate = allocate
        self.places: dict[tuple[int, ...], Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if self.allocate is None:
            y = nn.functional.linear(x, self.weight)
        else:
            shape = (*x.shape[:-1], self.weight.shape[0])
            if shape not in self.places:
                self.places[shape] = self.allocate(shape)
            y = self.places[shape]
            torch.mm(x.flatten(0, -2), self.weight.t(), out=y.view(-1, y.shape[-1]))
        self.team.all_reduce(y)
        return y


def parallelise(model: LlamaForCausalLM, team: Team, allocate: Allocate | None = None) -> None:
    """Divides the decoder layers of a Llama among the ranks of a team; embedding and scores stay whole."""
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for owner, names in [(attention, ("q_proj", "k_proj", "v_proj")), (mlp, ("gate_proj", "up_proj"))]:
            for name in names:
                setattr(owner, name, ColumnParallelLinear(getattr(owner, name), team))
        attention.o_proj = RowParallelLinear(attention.o_proj, team, allocate)
        mlp.down_proj = RowParallelLinear(mlp.down_proj, team, allocate)
