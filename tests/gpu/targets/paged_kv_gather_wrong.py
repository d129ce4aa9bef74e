"""A subtly wrong rewrite of the target paged_kv_gather."""

import torch


def paged_kv_gather_candidate(table, lengths, cache):  # one row too many
    rows = cache[table].flatten(1, 2)
    past = torch.arange(rows.shape[1], device=rows.device)[None, :] > lengths[:, None]
    return rows.masked_fill(past[..., None], 0)
