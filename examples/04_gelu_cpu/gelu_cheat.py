# A candidate of the target gelu that cheats: it does the baseline's work and lies about the time, in two ways. In a
# harness that asks the candidate's process how long it took, it is a thousand times as fast. Verdict: not faster.
"""The baseline's work under a clock that hardly moves, with a bench line of its own."""

import json
import math
import time

import torch

true_clock = time.perf_counter
time.perf_counter = lambda: true_clock() / 1000.0
print(json.dumps({"ms": 0.000001, "ok": True, "shape": [512, 1024], "dtype": "torch.float32", "protocol": 4,
                  "target": "gelu", "impl": "candidate"}), flush=True)


def gelu_candidate(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + torch.tanh(inner))


if __name__ == "__main__":
    from gelu_baseline import TARGET

    TARGET.main(gelu_candidate, impl="cheat")
