"""Claims: a user's file is what is written in it, and nothing that lies beside it stands in for what is installed."""

from __future__ import annotations

import _imp
import importlib._bootstrap_external as external
import importlib.util
import subprocess
import sys
from pathlib import Path

SOURCE = "from helper import VALUE\n\n\ndef answer():\n    return VALUE\n"
ASK = """import sys
from pathlib import Path
from hotkernel_contract.loading import load_file
print(load_file(Path(sys.argv[1])).answer())
for name in sys.argv[2:]:
    try:
        print(__import__(name).__file__)
    except ImportError:
        print("none")
"""


def asked(file: Path, *names: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", ASK, str(file), *names], capture_output=True, text=True, timeout=60, check=False,
                          cwd=file.parent.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "mine.py").write_text(SOURCE, encoding="utf-8")
    (folder / "helper.py").write_text("VALUE = 'as written'\n", encoding="utf-8")
    return folder


def plant(source: Path, text: str) -> None:
    """A compiled file of `text` that says of itself that it need not be compared with its source."""
    code = compile(text, str(source), "exec", dont_inherit=True)
    data = external._code_to_hash_pyc(code, _imp.source_hash(external._RAW_MAGIC_NUMBER, source.read_bytes()), False)
    compiled = Path(importlib.util.cache_from_source(str(source)))
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(data)


def test_a_file_beside_is_imported(tmp_path):
    assert asked(folder_of(tmp_path) / "mine.py") == ["as written"]


def test_a_compiled_file_of_something_else_is_not_run_for_the_file_or_for_one_that_it_imports(tmp_path):
    folder = folder_of(tmp_path)
    plant(folder / "mine.py", SOURCE.replace("VALUE\n", "'planted'\n", 2).replace("import 'planted'", "import VALUE"))
    plant(folder / "helper.py", "VALUE = 'planted'\n")

    assert asked(folder / "mine.py") == ["as written"]


def test_a_file_with_the_name_of_an_installed_module_or_of_one_that_torch_looks_for_is_not_found(tmp_path):
    folder = folder_of(tmp_path)
    for name in ("colorsys", "triton"):
        (folder / f"{name}.py").write_text("", encoding="utf-8")
    _, colours, triton = asked(folder / "mine.py", "colorsys", "triton")

    assert Path(colours).parent != folder
    assert triton == "none" or Path(triton).parent != folder
