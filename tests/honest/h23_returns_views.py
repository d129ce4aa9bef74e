# id: H23
# name: returns_views
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: outputs that are views of one larger buffer, in another order, with strides as the baseline's
# target: halves, candidate(x) -> left, right, scale: two are parts of one tensor
import torch


def candidate(x):
    rows, columns = x.shape
    room = torch.empty(rows * columns + rows + 64, dtype=x.dtype, device=x.device)
    y = room[64:64 + rows * columns].view(rows, columns)
    torch.sigmoid(x, out=y)
    scale = torch.amax(y, -1, out=room[64 + rows * columns:])
    return {"scale": scale, "right": y[:, columns // 2:], "left": y[:, :columns // 2]}
