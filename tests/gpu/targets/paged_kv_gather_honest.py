"""An honest rewrite of the target paged_kv_gather."""

import torch


def paged_kv_gather_candidate(table, lengths, cache):
    rows = torch.index_select(cache, 0, table.view(-1)).view(table.shape[0], -1, cache.shape[2])
    return rows.mul_((torch.arange(rows.shape[1], device=rows.device)[None, :] < lengths[:, None])[..., None])
