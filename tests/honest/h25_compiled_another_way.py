# id: H25
# name: compiled_another_way
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch compiler
# why: torch.compile with another mode, chosen by inductor's own trials of what is faster
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import torch


@torch.compile(mode="max-autotune-no-cudagraphs", fullgraph=True)
def candidate(x, w):
    return torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), w.float(), 1e-6).to(x.dtype)
