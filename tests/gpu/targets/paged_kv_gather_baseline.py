"""A paged cache's rows gathered by a block table, with lengths that end inside a page."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
BATCH, PAGES, PAGE, WIDTH = (32, 64, 16, 1024) if LARGE else (4, 8, 4, 32)


def gather(table, lengths, cache):
    rows = cache[table].flatten(1, 2)
    past = torch.arange(rows.shape[1], device=rows.device)[None, :] >= lengths[:, None]
    return rows.masked_fill(past[..., None], 0)


TARGET = Target(
    name="paged_kv_gather", function=gather, rotate=("table", "lengths"), min_bytes=BATCH * PAGES * PAGE * WIDTH * 2,
    inputs={"table": f"{BATCH}x{PAGES}:int64<{4 * BATCH * PAGES}", "lengths": f"{BATCH}:int32<{PAGES * PAGE}",
            "cache": f"{4 * BATCH * PAGES}x{PAGE}x{WIDTH}"})
