# id: H31
# name: numpy_with_threads_of_its_own
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch host
# why: numpy without a copy, and a matrix product by its BLAS, which made its threads when it was imported
# target: dots, candidate(x, y) -> z; x, y [64, 4096] fp32
import numpy as np
import torch


def candidate(x, y):
    products = np.matmul(x.numpy(), y.numpy().T)
    return torch.from_numpy(np.ascontiguousarray(products.diagonal()))
