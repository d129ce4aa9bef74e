"""Triton's own module is made once, where no candidate is, and each side has a copy that no other side can change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import GOOD, Nest, own_environment

from hotkernel.harness.zygote import Zygote

# A stand-in with the names that are used of Triton 3.6, for it needs a card's driver; its module is a few bytes.
TRITON = {
    "__init__.py": "", "experimental/__init__.py": "", "experimental/gluon.py": "", "runtime/__init__.py": "",
    "runtime/cache.py": "def triton_key(): return ''\n", "backends/__init__.py": "", "backends/nvidia/__init__.py": "",
    "backends/nvidia/driver.py": """
import os
from pathlib import Path

class CudaUtils:
    def __init__(self):
        file = Path(os.environ["TRITON_CACHE_DIR"], "KEY", "cuda_utils.so")
        file.parent.mkdir(parents=True)
        file.write_bytes(b"made")
        raise ImportError("libcuda.so.1")
""",
}
COPY = "import os\nfrom pathlib import Path\ncopy = Path(os.environ['TRITON_CACHE_DIR'], 'KEY', 'cuda_utils.so')\n"


@pytest.fixture(scope="module")
def nest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nest]:
    folder = tmp_path_factory.mktemp("nest")
    for name, text in TRITON.items():
        file = folder / "site" / "triton" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    zygote = Zygote(Path(sys.executable), {**own_environment(), "PYTHONPATH": str(folder / "site")}, folder / "log")
    nest = Nest(zygote, folder)
    yield nest
    nest.close()
    zygote.close()


def test_a_new_sides_cache_has_tritons_module_before_its_code_is_loaded(nest):
    nest.ready(nest.worker(f"{COPY}assert copy.read_bytes() == b'made'\n{GOOD}"))


def test_a_side_that_changes_its_copy_changes_no_other_sides(nest):
    nest.ready(nest.worker(f"{COPY}copy.write_bytes(b'poison')\n{GOOD}"))
    nest.ready(nest.worker(f"{COPY}assert copy.read_bytes() == b'made'\n{GOOD}"))
