"""The model of the tensor-parallel examples: a small Llama, initialised by chance, that decodes greedily.

The seed is fixed and nothing is downloaded, so every run has the same weights, and the text means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from transformers import LlamaConfig, LlamaForCausalLM

import torch
from torch import Tensor

PROMPT = 16


def small_llama(hidden: int, layers: int) -> LlamaConfig:
    """Llama's shape with `layers` decoder layers of `hidden` features, divisible by 2, 4 or 8 ranks."""
    return LlamaConfig(
        vocab_size=2048,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        initializer_range=0.1,  # wide enough that no two tokens are about equally likely
        bos_token_id=None,
        eos_token_id=None,
    )


def whole(config: LlamaConfig) -> LlamaForCausalLM:
    """The undivided model, the same on every rank."""
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def prompt(config: LlamaConfig) -> Tensor:
    """One sequence of a few tokens, the same on every rank."""
    return torch.randint(config.vocab_size, (1, PROMPT), generator=torch.Generator().manual_seed(0))


@torch.inference_mode()
def decode(model: LlamaForCausalLM, prompt: Tensor) -> Iterator[int]:
    """The most likely next token, again and again; the keys and values of the tokens before are kept."""
    output = model(prompt, use_cache=True)
    while True:
        token = int(output.logits[0, -1].argmax())
        yield token
        output = model(torch.tensor([[token]]), past_key_values=output.past_key_values, use_cache=True)
