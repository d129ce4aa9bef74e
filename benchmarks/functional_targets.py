"""Makes a target of each of many functions of torch.nn.functional, with no hand edit, and judges its untouched candidate.

    python benchmarks/functional_targets.py [NAME…] [--out TABLE.md]

An untouched candidate must come out `inconclusive` (rarely `slower`, on a busy machine). The table is in docs/targets.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.schema.verdict import Side
from hotkernel.session import Session
from hotkernel.tools.speed import judge
from hotkernel.tools.targets import new_target

VALUES, PAIRS, LIMIT_S = 2, 3, 120.0  # few: what is asked is whether it can be judged, not how fast it is


@dataclass(frozen=True)
class Call:
    """What new_target is told beside the function's name."""

    shape: str
    extra: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    dtype: str = "fp32"
    mixture: str = "full"
    rotate: tuple[str, ...] = ()


CALLS: dict[str, Call] = {
    "relu": Call("64x512"),
    "gelu": Call("64x512", more=("constant.approximate=tanh",)),
    "silu": Call("64x512"),
    "mish": Call("64x512"),
    "elu": Call("64x512", more=("constant.alpha=0.5",)),
    "leaky_relu": Call("64x512", more=("constant.negative_slope=0.2",)),
    "hardswish": Call("64x512"),
    "softplus": Call("64x512"),
    "logsigmoid": Call("256x1024"),
    "softmax": Call("64x512", more=("constant.dim=-1",)),
    "log_softmax": Call("64x512", more=("constant.dim=-1",)),
    "glu": Call("64x512", more=("constant.dim=-1",)),
    "prelu": Call("8x16x32", ("weight:16",)),
    "layer_norm": Call("64x512", ("weight:512", "bias:512"), ("constant.normalized_shape=(512,)",)),
    "rms_norm": Call("64x512", ("weight:512",), ("constant.normalized_shape=(512,)", "constant.eps=1e-6")),
    "group_norm": Call("8x16x64", ("weight:16", "bias:16"), ("constant.num_groups=4",), mixture="normal"),
    "batch_norm": Call("8x16x64", ("running_mean:16", "running_var:16:fp32:positive"), mixture="normal"),
    "normalize": Call("64x512:fp32:positive"),
    "linear": Call("64x256", ("weight:128x256", "bias:128"), ("reduction=256",), mixture="normal"),
    "bilinear": Call("16x32", ("x2:16x24", "weight:8x32x24"), ("reduction=768",), mixture="normal", rotate=("x", "x2")),
    "conv1d": Call("4x8x64", ("weight:16x8x3",), ("constant.padding=1", "reduction=24"), mixture="normal"),
    "conv2d": Call("2x8x16x16", ("weight:16x8x3x3", "bias:16"), ("constant.padding=1", "reduction=72"), mixture="normal"),
    "conv_transpose2d": Call("2x8x8x8", ("weight:8x4x3x3",), ("constant.stride=2", "reduction=72"), mixture="normal"),
    "max_pool2d": Call("2x8x16x16", more=("constant.kernel_size=2",)),
    "avg_pool2d": Call("2x8x16x16", more=("constant.kernel_size=3", "constant.stride=1"), mixture="normal"),
    "adaptive_avg_pool2d": Call("2x8x16x16", more=("constant.output_size=(4,4)",), mixture="normal"),
    "interpolate": Call("2x4x16x16", more=("constant.scale_factor=2.0", "constant.mode=bilinear"), mixture="normal"),
    "pad": Call("8x64", more=("constant.pad=(1,2)",)),
    "pixel_shuffle": Call("2x16x8x8", more=("constant.upscale_factor=2",)),
    "unfold": Call("2x4x8x8", more=("constant.kernel_size=3",)),
    "embedding": Call("8x32:int64<100", ("weight:100x64",)),
    "one_hot": Call("64:int64<32", more=("constant.num_classes=32",)),
    "cross_entropy": Call("64x128", ("target:64:int64<128",), ("backward=true",), mixture="normal", rotate=("x", "target")),
    "nll_loss": Call("4096x128", ("target:4096:int64<128",), mixture="normal", rotate=("x", "target")),
    "mse_loss": Call("64x128", ("target:64x128",), ("backward=x",), mixture="normal", rotate=("x", "target")),
    "smooth_l1_loss": Call("64x128", ("target:64x128",), ("constant.reduction=none",), rotate=("x", "target")),
    "kl_div": Call("64x128", ("target:64x128:fp32:unit",), ("constant.reduction=sum",), mixture="normal", rotate=("x", "target")),
    "binary_cross_entropy": Call("64x128:fp32:unit", ("target:64x128:fp32:unit",), rotate=("x", "target")),
    "binary_cross_entropy_with_logits": Call("64x128", ("target:64x128:fp32:unit",), mixture="normal", rotate=("x", "target")),
    "cosine_similarity": Call("64x128", ("x2:64x128",), mixture="normal", rotate=("x", "x2")),
    "pairwise_distance": Call("64x128", ("x2:64x128",), mixture="normal", rotate=("x", "x2")),
    "scaled_dot_product_attention": Call("2x4x32x16", ("key:2x4x32x16", "value:2x4x32x16"), ("constant.is_causal=True",),
                                         mixture="normal", rotate=("x", "key", "value")),
    "dropout": Call("64x512"),
    "gumbel_softmax": Call("64x512"),
    "ctc_loss": Call("32x4x20", ("targets:4x8:int64<20", "input_lengths:4:int64<30", "target_lengths:4:int64<8")),
    "max_pool2d_with_indices": Call("2x8x16x16", more=("constant.kernel_size=2",), mixture="normal"),
}


def try_one(session: Session, name: str, call: Call) -> tuple[str, str]:
    """The untouched candidate's verdict and its reason, or `refused` and why."""
    try:
        made = new_target(session, name, f"torch.nn.functional:{name}", call.shape, call.dtype, list(call.extra),
                          list(call.rotate), out_dir=name, more=list(call.more), mixture=call.mixture, device="cpu", iters=2)
        files = {Side.BASELINE: Path(made.files["baseline"]), Side.CANDIDATE: Path(made.files["candidate"])}
        found = judge(session, files, n=PAIRS, timeout=LIMIT_S, values_per_pair=VALUES)
    except ToolError as error:
        return "refused", error.message
    return str(found.verdict), found.reason


def main() -> int:
    """Try the functions, print a row each and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out")
    given = parser.parse_args()
    rows = ["| function | inputs | with | verdict | |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="functional-") as folder:
        session = Session(root=Path(folder), environment={**os.environ, "HOTKERNEL_STATE_DIR": f"{folder}/state"})
        for name in given.names or CALLS:
            call = CALLS[name]
            verdict, reason = try_one(session, name, call)
            shown = "" if verdict in ("inconclusive", "slower") else reason.replace("|", "/")[:200]
            words = " ".join([*call.more, *(["mixture=normal"] if call.mixture == "normal" else [])])
            rows.append(f"| `{name}` | {' '.join([call.shape, *call.extra])} | {words} | {verdict} | {shown} |")
            print(rows[-1], flush=True)
        session.nursery.close()
    if given.out:
        Path(given.out).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
