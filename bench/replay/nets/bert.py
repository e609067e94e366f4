"""BERT (Devlin et al., 2018), the base model for English without capitals, with a classifier of two classes."""

import torch
from torch import Tensor, nn

WIDTH = 768
"""Length of the vector of a token."""

HEADS = 12
"""Number of attention heads of a layer."""

LAYERS = 12
"""Number of layers."""

INNER = 3072
"""Width between the two dense layers."""

POSITIONS = 512
"""Largest number of tokens of a request."""

VOCABULARY = 30_522
"""Number of different tokens."""

TOKENS = 128
"""Number of tokens of the example requests."""


class BertLayer(nn.Module):
    """Attention and two dense layers, each added to its input and normalised afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values, self.projection = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.dense = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))
        self.after_attention, self.after_dense = nn.LayerNorm(WIDTH, eps=1e-12), nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return tokens of the same shape, (batch, tokens, width)."""
        query, key, value = (
            part(tokens).unflatten(2, (HEADS, -1)).transpose(1, 2) for part in (self.queries, self.keys, self.values)
        )
        attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        tokens = self.after_attention(tokens + self.projection(attended.transpose(1, 2).flatten(2)))
        normalised: Tensor = self.after_dense(tokens + self.dense(tokens))
        return normalised


class Bert(nn.Module):
    """BERT base."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions, self.types = (nn.Embedding(size, WIDTH) for size in (VOCABULARY, POSITIONS, 2))
        self.normalised = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer() for _ in range(LAYERS))
        self.pooled = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.classifier = nn.Linear(WIDTH, 2)

    def forward(self, requests: Tensor) -> Tensor:
        """Return scores, shape (batch, 2), of requests of shape (batch, 3, tokens): word ids, mask, types."""
        ids, mask, types = requests.unbind(1)
        position = torch.arange(ids.shape[1], device=ids.device)
        tokens = self.normalised(self.words(ids) + self.positions(position) + self.types(types))
        visible = mask.bool()[:, None, None, :]
        for layer in self.layers:
            tokens = layer(tokens, visible)
        scores: Tensor = self.classifier(self.pooled(tokens[:, 0]))
        return scores

    @staticmethod
    def example_input(batch: int) -> Tensor:
        """Return random requests of ``TOKENS`` tokens."""
        ids = torch.randint(0, VOCABULARY, (batch, TOKENS))
        return torch.stack([ids, torch.ones_like(ids), torch.zeros_like(ids)], dim=1)
