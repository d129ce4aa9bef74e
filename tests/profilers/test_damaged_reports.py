"""Reports with bytes changed, lost and doubled at random: rows or a sentence come of them, never anything else."""

import gzip
import random

import pytest
from kernel_reports import OURS, read

from hotkernel.errors import ToolError

ROUNDS = 60
MARKS = b'",{}[]\\\n:;0.-ne'


def damaged(content: bytes, luck: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(luck.choice([1, 5, 50])):
        place = luck.randrange(len(changed))
        how = luck.randrange(4)
        if how == 0:
            changed[place] = luck.randrange(256)
        elif how == 1:
            del changed[place : place + luck.randrange(1, 50)]
        elif how == 2:
            changed[place:place] = bytes(luck.choice(MARKS) for _ in range(luck.randrange(1, 6)))
        else:
            start = luck.randrange(len(changed))
            changed[place:place] = changed[start : start + luck.randrange(1, 80)]
    return bytes(changed)


@pytest.mark.parametrize(
    "name",
    ["more.details.csv", "nt_cuda_gpu_kern_sum.csv", "nt_cuda_gpu_trace.csv", "torch_trace.json.gz", "nt.sqlite"],
)
def test_damage_gives_rows_or_a_sentence(tmp_path, name):
    content = (OURS / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    luck = random.Random(name)
    found, refused = [], []
    for _ in range(ROUNDS):
        (tmp_path / "report").write_bytes(damaged(content, luck))
        try:
            found.append(read(tmp_path / "report"))
        except ToolError as error:
            refused.append(error)

    assert len(found) + len(refused) == ROUNDS
    assert found
    assert all(one.kernels or one.reason for one in found)
    assert all(error.fix for error in refused)
