# id: H24
# name: targets_own_file
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: a target's file with another function in it, given as the candidate as it is
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import torch

from hotkernel_contract import Target


def rmsnorm(x, w):
    return torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), w.float(), 1e-6).to(x.dtype)


TARGET = Target(name="rmsnorm", function=rmsnorm, inputs={"x": "256x1024", "w": "1024"}, dtype="bf16", device="cpu")

if __name__ == "__main__":
    TARGET.main()
