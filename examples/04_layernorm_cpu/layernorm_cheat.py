# A candidate of the target layernorm that cheats: it does the baseline's work and lies about the time, in two ways. To a
# harness that asks the candidate's process how long it took, it is a thousand times as fast. Verdict: not faster.
"""The baseline's work under a clock that hardly moves, with a bench line of its own."""

import json
import time

import torch

EPSILON = 1e-5

true_clock = time.perf_counter
time.perf_counter = lambda: true_clock() / 1000.0
print(json.dumps({"ms": 0.000001, "ok": True, "shape": [256, 1024], "dtype": "torch.float32", "protocol": 4,
                  "target": "layernorm", "impl": "candidate"}), flush=True)


def layernorm_candidate(x, w, b):
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + EPSILON) * w + b


if __name__ == "__main__":
    from layernorm_baseline import TARGET

    TARGET.main(layernorm_candidate, impl="cheat")
