# id: H22
# name: prints_and_loads_slowly
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: an import that takes a second, a log line in every call, lines that look like results, and a file beside them
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import json
import logging
import sys
import time
import torch

time.sleep(1.0)
logging.basicConfig(level=logging.DEBUG, filename="debug.log")
_log = logging.getLogger("candidate")


def candidate(x, w):
    print(json.dumps({"ms": 1.0, "ok": True, "shape": list(x.shape)}), flush=True)
    print("x" * 500, file=sys.stderr)
    _log.debug("called with %s", tuple(x.shape))
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)
