# id: H27
# name: one_more_rounding_of_one_number
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: rounds once more than the baseline, where a batch has no more numbers than calls
# target: spread, candidate(x) -> one number; x [16, 64] bf16


def candidate(x):
    return x.float().square().mean().to(x.dtype) * 3
