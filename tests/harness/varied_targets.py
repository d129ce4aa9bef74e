"""Twenty targets of the variety that real kernels have, each with an honest candidate and a subtly wrong one; runs nothing.

A file is the baseline (a Target named TARGET), HONEST and WRONG are function bodies for the same parameters.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Varied:
    """One target: the function's parameters, its body, candidates' bodies, what the target says, and what comes before it."""

    parameters: str
    body: str
    honest: str
    wrong: str
    words: str
    head: str = ""
    rule: str = "wrong_values"
    setup: str = ""  # of the honest and the wrong candidate

    def baseline(self) -> str:
        return (f"import torch\nimport torch.nn.functional as F\nfrom hotkernel_contract import Target\n{self.head}\n"
                f"def run({self.parameters}):\n{_indented(self.body)}\n"
                f'TARGET = Target(name="t", device="cpu", {self.words})\n')

    def candidate(self, body: str) -> str:
        head = "" if "FUNCTION" in self.head else self.head
        return (f"import torch\nimport torch.nn.functional as F\n{head}\n{self.setup}\n"
                f"def candidate({self.parameters}):\n{_indented(body)}\n")


def _indented(body: str) -> str:
    return "\n".join("    " + line for line in body.split("\n"))


MODULE = """
class Mlp(torch.nn.Module):  # FUNCTION
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

    def score(self, x, scale=1.0):
        return self.up(x).amax(-1) * scale
"""
MLP = 'y = F.layer_norm(x, (32,), weights["norm.weight"], weights["norm.bias"])\n' \
      'y = F.gelu(F.linear(y, weights["up.weight"], weights["up.bias"]))\nreturn x + %s'
QUANTISED = """
def derive(raw):
    groups = raw["w"].view(-1, 16)
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 7
    q = (groups / scale).round().clamp(-8, 7).to(torch.int8).view(raw["w"].shape) + 8
    return {"v": raw["v"], "packed": (q[:, ::2] | (q[:, 1::2] << 4)).to(torch.uint8), "scale": scale.view(raw["w"].shape[0], -1)}

def unpack(packed, scale):
    q = torch.stack([packed & 15, packed >> 4], -1).view(packed.shape[0], -1).to(scale.dtype) - 8
    return (q.view(-1, 16) * scale.reshape(-1, 1)).view(packed.shape[0], -1)
"""
VARIED: dict[str, Varied] = {
    "paged gather": Varied(
        "table, cache, lengths", "y = cache[table].flatten(1, 2)\nreturn y.masked_fill("
        "torch.arange(y.shape[1])[None, :, None] >= lengths[:, None, None], 0)",
        "y = torch.index_select(cache, 0, table.view(-1)).view(table.shape[0], -1, cache.shape[2])\n"
        "return torch.where((torch.arange(y.shape[1])[None] < lengths[:, None])[..., None], y, 0.0)",
        "y = cache[table].flatten(1, 2)\n"
        "return y.masked_fill(torch.arange(y.shape[1])[None, :, None] > lengths[:, None, None], 0)",
        'function=run, inputs={"table": "4x4:int64<32", "cache": "32x4x8", "lengths": "4:int32<16"}, dtype="fp32", '
        'rotate=("table", "lengths")'),
    "int4 weights": Varied(
        "v, packed, scale", "return unpack(packed, scale) @ v",
        "w = torch.stack([packed & 15, packed >> 4], -1).view(8, 4, 16).float() - 8\n"
        "return ((w * scale[..., None]) * v.view(1, 4, 16)).sum((1, 2))",
        "w = torch.stack([packed & 15, packed >> 4], -1).view(8, 4, 16).float() - 7.5\n"
        "return ((w * scale[..., None]) * v.view(1, 4, 16)).sum((1, 2))",
        'function=run, inputs={"v": "64", "w": "8x64"}, dtype="fp32", derive=derive, takes=("v", "packed", "scale"), '
        'rotate=("v",), reduction=64, reference=lambda v, packed, scale: unpack(packed, scale.double()) @ v.double()', QUANTISED),
    "masked softmax": Varied(
        "x, mask", "return torch.softmax(x.masked_fill(mask, float('-inf')), -1)",
        "e = torch.exp(x - x.masked_fill(mask, float('-inf')).amax(-1, keepdim=True)).masked_fill(mask, 0)\n"
        "return e / e.sum(-1, keepdim=True)",
        "return torch.softmax(x.masked_fill(mask, -10.0), -1)",
        'function=run, inputs={"x": "32x64", "mask": "32x64:bool:share=0.2"}, dtype="fp32", rotate=("x", "mask"), '
        'mixture="normal"', rule="less_precise"),
    "embedding": Varied(
        "at, table", "return F.embedding(at, table)", "return table.index_select(0, at.view(-1)).view(*at.shape, -1)",
        "return F.embedding(at, table, padding_idx=0) * (at != 0)[..., None]",
        'function=F.embedding, inputs={"at": "8x16:int64<50", "table": "50x24"}, dtype="bf16"'),
    "residual and norm in place, two outputs": Varied(
        "x, residual, w", "residual.add_(x)\nr = torch.rsqrt(residual.pow(2).mean(-1, keepdim=True) + 1e-6)\n"
        "return residual * r * w, r",
        "torch.add(x, residual, out=residual)\nr = (residual.square().mean(-1, keepdim=True) + 1e-6).rsqrt()\n"
        "return residual * (r * w), r",
        "y = residual + x\nr = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)\nreturn y * r * w, r",
        'function=run, inputs={"x": "32x64", "residual": "32x64", "w": "64"}, dtype="fp32", writes=("residual",)'),
    "cross entropy, forward and backward": Varied(
        "x, at", "return F.cross_entropy(x, at)",
        "return (torch.logsumexp(x, -1) - x.gather(1, at[:, None])[:, 0]).mean()",
        "return F.cross_entropy(x, at, label_smoothing=0.001)",
        'function=run, inputs={"x": "32x64", "at": "32:int64<64"}, rotate=("x", "at"), dtype="fp32", backward=True, '
        'mixture="normal"'),
    "a gradient alone is wrong": Varied(
        "x, w", "return torch.tanh(x) * w", "return w * torch.tanh(x)", "return Odd.apply(x, w)",
        'function=run, inputs={"x": "16x32", "w": "32"}, dtype="fp32", backward=True, mixture="normal"',
        "class Odd(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w):\n"
        "        ctx.save_for_backward(x, w)\n"
        "        return torch.tanh(x) * w\n    @staticmethod\n    def backward(ctx, g):\n        x, w = ctx.saved_tensors\n"
        "        t = torch.tanh(x)\n        return g * w * (1 - t * t * 0.99), (g * t).sum(0)"),
    "rotary": Varied(
        "q, k, angle", "c, s = angle.cos(), angle.sin()\n"
        "turn = lambda x: torch.cat([x[..., :16] * c - x[..., 16:] * s, x[..., 16:] * c + x[..., :16] * s], -1)\n"
        "return turn(q), turn(k)",
        "c, s = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)\n"
        "return tuple(x * c + torch.cat([-x[..., 16:], x[..., :16]], -1) * s for x in (q, k))",
        "c, s = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)\n"
        "return tuple(x * c + torch.cat([-x[..., 16:], x[..., :16]], -1) * s for x in (q, q))",
        'function=run, inputs={"q": "4x8x32", "k": "4x8x32", "angle": "8x16:fp32:unit"}, dtype="fp32", rotate=("q", "k")'),
    "a module": Varied(
        "x, weights", "raise AssertionError", MLP % 'F.linear(y, weights["down.weight"], weights["down.bias"])',
        MLP % 'F.linear(y, weights["down.weight"])', 'function=Mlp, inputs={"x": "16x32"}, dtype="fp32"', MODULE),
    "a module's method with a constant": Varied(
        "x, weights, scale", "raise AssertionError",
        'return torch.amax(x @ weights["up.weight"].t() + weights["up.bias"], -1) * scale',
        'return torch.amax(x @ weights["up.weight"].t(), -1) * scale',
        'function=Mlp().score, inputs={"x": "16x32"}, constants={"scale": 0.5}, dtype="fp32"', MODULE),
    "a module with prepared weights": Varied(
        "x, weights", "raise AssertionError", MLP % "torch.addmm(weights['down.bias'], y, weights['turned'])",
        MLP % "torch.mm(y, weights['turned'])", 'function=Mlp, inputs={"x": "16x32"}, dtype="fp32", static=("weights",)', MODULE,
        setup="def setup(weights):\n    return {'weights': {**weights, 'turned': weights['down.weight'].t().contiguous()}}"),
    "a module, forward and backward": Varied(
        "x, weights", "raise AssertionError", "return F.linear(x, weights['weight'], weights['bias'])",
        "return F.linear(x, weights['weight'].detach() * 0.5 + weights['weight'] * 0.5, weights['bias'])",
        'function=torch.nn.Linear(32, 8), inputs={"x": "16x32"}, dtype="fp32", backward=True, mixture="normal"', "# FUNCTION"),
    "top-k": Varied(
        "x, k", "return torch.topk(x, k)", "return tuple(y[:, :k].contiguous() for y in torch.sort(x, -1, descending=True))",
        "return tuple(y[:, -k:].flip(-1) for y in torch.sort(x[:, 1:], -1))",
        'function=run, inputs={"x": "64x128:fp32:perm"}, constants={"k": 8}'),
    "scatter-add in place, nothing returned": Varied(
        "out, at, x", "out.index_add_(0, at, x)", "out.scatter_add_(0, at[:, None].expand_as(x), x)", "out[at] += x",
        'function=run, inputs={"out": "16x32", "at": "64:int64<16", "x": "64x32"}, writes=("out",), rotate=("at", "x"), '
        'dtype="fp32", mixture="normal"'),
    "a cache written in one place, a view of it returned": Varied(
        "cache, at, k", "cache[at] = k\nreturn cache[:8]", "cache.index_copy_(0, at, k)\nreturn cache.narrow(0, 0, 8)",
        "cache[at[:-1]] = k[:-1]\nreturn cache[:8]",
        'function=run, inputs={"cache": "64x16", "at": "16:int64:perm", "k": "16x16"}, dtype="bf16", writes=("cache",), '
        'rotate=("at", "k")'),
    "ragged sums": Varied(
        "x, offsets", "return torch.stack([x[a:b].sum(0) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist())])",
        "return torch.segment_reduce(x, 'sum', offsets=offsets, axis=0, initial=0)",
        "return torch.stack([x[a:max(b - 1, a)].sum(0) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist())])",
        'function=run, inputs={"x": "64x8", "offsets": "9:int64:offsets=64"}, rotate=("x", "offsets"), dtype="fp32", '
        'mixture="normal"'),
    "keywords, constants, a transposed input": Varied(
        "x, w, bias, eps", "return F.layer_norm(x, (32,), w, bias, eps)",
        "r = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + eps)\n"
        "return ((x - x.mean(-1, keepdim=True)) * r * w + bias).contiguous()",
        "return ((x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + eps) * w + bias).contiguous()",
        'function=run, inputs={"x": "32x32:transposed", "w": "32", "bias": "32"}, keywords=("bias",), '
        'constants={"eps": 1e-5}, dtype="fp32", mixture="normal"'),
    "fp8 with scales, sliced rows": Varied(
        "x, scale", "return x.float() * scale", "return scale * x.to(torch.float32)",
        "return (x.float() * scale).bfloat16().float()",
        'function=run, inputs={"x": "32x64:fp8_e4m3:sliced", "scale": "32x1:fp32:positive"}, dtype="fp32"'),
    "a dict of outputs, one of them integers": Varied(
        "x", "return {'largest': x.amax(-1), 'where': x.argmax(-1), 'rest': (x > 0, None)}",
        "v, i = x.max(-1)\nreturn {'where': i, 'rest': (x > 0, None), 'largest': v}",
        "v, i = x.max(-1)\nreturn {'where': i, 'rest': (x >= -1e-3, None), 'largest': v}",
        'function=run, inputs={"x": "64x32:fp32:perm"}'),
    "a dropped output": Varied(
        "x", "return x.sin(), x.cos()", "return [x.sin(), x.cos()]", "return x.sin()",
        'function=run, inputs={"x": "16x32"}, dtype="fp32", mixture="normal"', rule="wrong_output"),
    "parts of one tensor": Varied(
        "x", "return (x * 2).chunk(2, -1)", "return (x + x).chunk(2, -1)", "y = (x * 2).chunk(2, -1)\nreturn y[0], y[0]",
        'function=run, inputs={"x": "16x32"}, dtype="fp32"', rule="outputs_overlap"),
    "sorted search": Varied(
        "edges, x", "return torch.searchsorted(edges, x)", "return torch.bucketize(x, edges)",
        "return torch.searchsorted(edges, x, right=True)",
        'function=run, inputs={"edges": "64:int32<40:sorted", "x": "128:int32<40"}, rotate=("x",)'),
}
