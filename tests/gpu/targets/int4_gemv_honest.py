"""An honest rewrite of the target int4_gemv."""


def int4_gemv_candidate(v, packed, scale):
    group = 2 * packed.shape[1] // scale.shape[1]
    even, odd = v[0::2].float(), v[1::2].float()
    shape = (packed.shape[0], scale.shape[1], group // 2)
    low, high = (packed & 15).float() - 8, (packed >> 4).float() - 8
    sums = (low * even + high * odd).view(shape).sum(-1)
    return (sums * scale.float()).sum(-1).to(v.dtype)
