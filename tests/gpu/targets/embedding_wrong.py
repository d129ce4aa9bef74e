"""A subtly wrong rewrite of the target embedding."""


def embedding_candidate(at, table):  # the last word is taken for another
    return table.index_select(0, at.clamp(max=table.shape[0] - 2))
