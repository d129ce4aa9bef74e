"""A decoder of twelve layers with random weights: RMSNorm, rotary attention, SwiGLU. `step` is one pass over a prompt.

    python decoder.py [--layers 12] [--dim 256] [--tokens 128] [--batch 1] [--dtype fp32] [--device cpu]

It is written as models often are: the norm makes several passes in fp32, and the MLP asks for its gate twice.
"""

from __future__ import annotations

import argparse
import functools
import sys

import torch
from torch import nn
from torch.nn import functional

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HEAD, VOCABULARY = 32, 512


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight.float()).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, dim: int, tokens: int) -> None:
        super().__init__()
        self.heads = dim // HEAD
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        angles = torch.outer(torch.arange(tokens).float(), 10000.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return torch.cat([first * self.cos - second * self.sin, second * self.cos + first * self.sin], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, dim = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, HEAD).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, dim))


class SwiGLU(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        inner = 8 * dim // 3
        self.gate, self.up = nn.Linear(dim, inner, bias=False), nn.Linear(dim, inner, bias=False)
        self.down = nn.Linear(inner, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.gate(x) * torch.sigmoid(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, dim: int, tokens: int) -> None:
        super().__init__()
        self.norm1, self.attention = RMSNorm(dim), Attention(dim, tokens)
        self.norm2, self.mlp = RMSNorm(dim), SwiGLU(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, layers: int, dim: int, tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, dim)
        self.layers = nn.ModuleList(Layer(dim, tokens) for _ in range(layers))
        self.norm, self.head = RMSNorm(dim), nn.Linear(dim, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@functools.lru_cache
def built() -> tuple[Decoder, torch.Tensor]:
    """The model and a prompt, of the sizes that the command line says; the same numbers every time."""
    parser = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("dim", 256), ("tokens", 128), ("batch", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=DTYPES, default="fp32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args(sys.argv[1:])
    torch.manual_seed(0)
    with torch.device(given.device):
        model = Decoder(given.layers, given.dim, given.tokens).to(DTYPES[given.dtype]).eval()
    return model, torch.randint(0, VOCABULARY, (given.batch, given.tokens), device=given.device)


@torch.no_grad()
def step() -> torch.Tensor:
    """One pass over the prompt."""
    model, prompt = built()
    return model(prompt)


if __name__ == "__main__":
    print(step().float().norm().item())
