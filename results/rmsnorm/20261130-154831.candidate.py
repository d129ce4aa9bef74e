# A candidate of the target rmsnorm that cheats: it does the baseline's work, replaces the event's clock and prints a bench
# line of its own. To a harness that asks the candidate's process how long it took, it is fast. Verdict: not faster.
"""The baseline's work under a forged clock."""

import json

import torch

EPSILON = 1e-6

torch.cuda.Event.elapsed_time = lambda self, end: 0.001
print(json.dumps({"ms": 0.000001, "ok": True, "shape": [4096, 8192], "dtype": "torch.bfloat16", "protocol": 4,
                  "target": "rmsnorm", "impl": "candidate"}), flush=True)


def rmsnorm_candidate(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON) * w.float()).to(x.dtype)


if __name__ == "__main__":
    from rmsnorm_baseline import TARGET

    TARGET.main(rmsnorm_candidate, impl="cheat")
