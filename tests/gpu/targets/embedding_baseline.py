"""Rows of a table by 64-bit indices."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
TOKENS, WORDS, WIDTH = (8192, 32000, 4096) if LARGE else (64, 100, 32)


def embed(at, table):
    return torch.nn.functional.embedding(at, table)


TARGET = Target(
    name="embedding", function=embed,
    inputs={"at": f"{TOKENS}:int64<{WORDS}", "table": f"{WORDS}x{WIDTH}"}, min_bytes=4 * TOKENS * WIDTH)
