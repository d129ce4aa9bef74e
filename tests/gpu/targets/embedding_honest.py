"""An honest rewrite of the target embedding."""


def embedding_candidate(at, table):
    return table.index_select(0, at)
