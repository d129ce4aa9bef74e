"""A subtly wrong rewrite of the target scatter_add."""


def scatter_add_candidate(out, at, x):  # of those that meet, one alone is added
    out[at] += x
