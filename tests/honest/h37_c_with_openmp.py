# id: H37
# name: c_with_openmp
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch compiler host
# why: C that is compiled when it is loaded and called by ctypes, with a team of threads of a library of its own
# target: dots, candidate(x, y) -> z; x, y [64, 4096] fp32
import ctypes
import subprocess
import tempfile
import torch

SOURCE = """
void dots(const float *x, const float *y, float *z, long rows, long columns) {
    #pragma omp parallel for
    for (long row = 0; row < rows; row++) {
        double sum = 0;
        for (long at = row * columns; at < (row + 1) * columns; at++) sum += (double) x[at] * y[at];
        z[row] = sum;
    }
}
"""


def _built():
    folder = tempfile.mkdtemp()
    with open(folder + "/dots.c", "w", encoding="utf-8") as file:
        file.write(SOURCE)
    subprocess.run(["cc", "-O3", "-fopenmp", "-shared", "-fPIC", "-o", folder + "/dots.so", folder + "/dots.c"], check=True)
    return ctypes.CDLL(folder + "/dots.so").dots


_dots = _built()


def candidate(x, y):
    z = torch.empty(x.shape[0])
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (x, y, z)]
    _dots(*pointers, ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return z
