"""Claims about the vendored contract: it is the package's own text, stands alone, and shows an edit."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hotkernel import __version__
from hotkernel.scaffold import vendor

TEXT = vendor.contract_text()
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_it_needs_nothing_but_torch_and_the_standard_library() -> None:
    modules = {name.split(".")[0] for node in ast.walk(ast.parse(TEXT)) for name in _imported(node)}

    assert modules - set(sys.stdlib_module_names) == {"torch"}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_it_is_python_3_9() -> None:
    ast.parse(TEXT, feature_version=(3, 9))


def test_it_has_every_name_that_the_package_gives(tmp_path: Path) -> None:
    (tmp_path / vendor.FILE_NAME).write_text(TEXT, encoding="utf-8")
    code = ("import hotkernel_contract, sys; sys.path.insert(0, sys.argv[1]); names = hotkernel_contract.__all__; "
            "del sys.modules['hotkernel_contract']; import hotkernel_contract as copy; "
            "assert copy.__file__.endswith('hotkernel_contract.py'); print([n for n in names if not hasattr(copy, n)])")
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60, check=True,
                          env={"PYTHONPATH": str(vendor.package_folder().parent)})

    assert done.stdout.strip() == "[]"


def test_every_function_of_the_parts_is_in_it_word_for_word() -> None:
    merged = {node.name: ast.unparse(node) for node in ast.parse(TEXT).body if isinstance(node, ast.FunctionDef)}
    for part in vendor.PARTS:
        source = (vendor.package_folder() / f"{part}.py").read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                assert merged[node.name] == ast.unparse(node)


def test_it_says_its_version_and_that_it_is_intact() -> None:
    copy = vendor.read_copy(TEXT)

    assert copy is not None
    assert (copy.version, copy.is_intact) == (__version__, True)


def test_one_changed_character_shows() -> None:
    edited = vendor.read_copy(TEXT.replace("MAX_COPIES = 512", "MAX_COPIES = 513"))

    assert edited is not None
    assert not edited.is_intact


def test_a_file_of_another_maker_is_no_copy() -> None:
    assert vendor.read_copy("import torch\n") is None


def test_the_copy_beside_a_baseline_is_read_and_one_of_another_maker_has_no_version(tmp_path: Path) -> None:
    baseline, file = tmp_path / "x_baseline.py", tmp_path / vendor.FILE_NAME

    assert vendor.copy_beside(baseline) is None
    file.write_text(TEXT, encoding="utf-8")
    assert vendor.copy_beside(baseline) == vendor.read_copy(TEXT)
    file.write_text("import torch\n", encoding="utf-8")
    assert vendor.copy_beside(baseline) == vendor.ContractCopy("", "", False)


def test_two_parts_that_define_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a.py and b.py both define LIMIT"):
        vendor.merge({"a": '"""A."""\nLIMIT = 1\n', "b": '"""B."""\nOTHER, LIMIT = 1, 2\n'})


def test_an_import_of_a_part_that_is_not_merged_is_refused() -> None:
    with pytest.raises(ValueError, match="no such module"):
        vendor.merge({"a": '"""A."""\ndef f():\n    from hotkernel_contract.pool import Pool\n    return Pool\n'})


def test_imports_are_merged_and_those_between_the_parts_are_gone() -> None:
    merged = vendor.merge({
        "a": '"""A, the first."""\n\nfrom __future__ import annotations\n\nimport re\nimport torch\nfrom os import path\n\n'
             'X = 1\n',
        "b": '"""B."""\n\nfrom __future__ import annotations\n\nimport re\nfrom os import sep\n'
             'from hotkernel_contract.a import X\n\nY = X\n\n\n'
             'def f():\n    """F."""\n    from hotkernel_contract.a import X\n\n    return X\n'})

    assert merged == ('from __future__ import annotations\n\nimport re\nfrom os import path, sep\n\nimport torch\n\n'
                      '# a.py: A, the first.\n\nX = 1\n\n\n# b.py: B.\n\nY = X\n\n\ndef f():\n    """F."""\n    return X\n')


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/hotkernel_contract.py")), ids=lambda path: path.parent.name)
def test_the_examples_carry_this_version(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == TEXT, "run python -P -m hotkernel.scaffold.vendor examples/*/hotkernel_contract.py"


def test_the_command_brings_a_copy_up_to_date_and_touches_no_other_file(tmp_path: Path) -> None:
    old, other = tmp_path / vendor.FILE_NAME, tmp_path / "other.py"
    old.write_text("old", encoding="utf-8")
    other.write_text("mine", encoding="utf-8")

    vendor.main([str(old)])
    with pytest.raises(SystemExit, match=r"no hotkernel_contract.py"):
        vendor.main([str(other)])

    assert old.read_text(encoding="utf-8") == TEXT
    assert other.read_text(encoding="utf-8") == "mine"
