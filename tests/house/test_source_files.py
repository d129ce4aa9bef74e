"""What every file of ours keeps to: a first sentence, its size, the Python it runs on, and no path of anybody's machine."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
LINES, FUNCTION_LINES = 300, 40
MODULES = sorted(SOURCES.rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py")
               if not {"fixtures", "cheats", "honest"} & set(path.relative_to(ROOT).parts))

# Functions over 40 lines, with the reason that they are one.
LONG_FUNCTIONS = {
    "hotkernel/tools/targets.py:new_target": "its arguments with their help are thirty lines: both doors read them there",
}
# Paths of a machine at work on this, and none of a user's. A path in WSL (/mnt/c/work) is an example.
MACHINE_PATHS = re.compile(r"(?<![\w/.])/(?:(?:work|tmp/v|tmp/hk\w*)(?:/|\b(?![\w-]))|root/|home/(?!user\b|you\b|me\b)[a-z]\w+/)")


def name_of(file: Path) -> str:
    return str(file.relative_to(SOURCES if file.is_relative_to(SOURCES) else ROOT))


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def functions_of(file: Path) -> dict[str, int]:
    """Names of functions and methods with their lines; of two with one name, the longer."""
    found: dict[str, int] = {}
    for node in ast.walk(tree_of(file)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            found[node.name] = max(found.get(node.name, 0), lines)
    return found


def tracked() -> list[Path]:
    """The files that git knows; where there is no git, those that a distribution holds."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode == 0 and done.stdout:
        return [ROOT / name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return [*MODULES, *TESTS]


# The first sentence ---------------------------------------------------------------------------------------------------


def test_every_file_opens_with_a_sentence_about_its_job():
    firsts = {name_of(file): (ast.get_docstring(tree) or "").split("\n\n")[0].strip()
              for file in (*MODULES, *TESTS) if (tree := tree_of(file)).body}  # an empty file marks a package

    assert {name: first for name, first in firsts.items() if not re.fullmatch(r"(?s).{20,400}[.:]", first)} == {}


def test_no_two_modules_say_the_same_of_themselves():
    firsts: dict[str, str] = {}
    for file in MODULES:
        first = (ast.get_docstring(tree_of(file)) or "").split("\n")[0]
        if first:
            assert first not in firsts, f"{name_of(file)} and {firsts[first]}"
            firsts[first] = name_of(file)


# Size -----------------------------------------------------------------------------------------------------------------


def test_no_module_is_longer_than_300_lines():
    long = {name_of(file) for file in MODULES if len(file.read_text(encoding="utf-8").splitlines()) > LINES}

    assert long == set()


def test_no_function_is_longer_than_40_lines_without_a_reason():
    long = {f"{name_of(file)}:{name}" for file in MODULES for name, lines in functions_of(file).items() if lines > FUNCTION_LINES}

    assert long - set(LONG_FUNCTIONS) == set()
    assert set(LONG_FUNCTIONS) - long == set(), "an exception that is none any more"


def test_no_test_is_longer_than_a_screen():
    long = {f"{name_of(file)}:{name}" for file in TESTS for name, lines in functions_of(file).items() if lines > FUNCTION_LINES}

    assert long == set()


@pytest.mark.parametrize("word", ["utils", "util", "helpers", "helper", "common", "manager", "data", "info", "misc"])
def test_no_file_is_named_after_nothing(word):
    assert [name_of(file) for file in MODULES if file.stem == word or file.parent.name == word] == []


def test_no_two_test_files_have_one_name():
    names = [file.name for file in TESTS if file.name.startswith("test_")]

    assert sorted(names) == sorted(set(names))  # pytest imports them by name


# Habits ---------------------------------------------------------------------------------------------------------------


def calls_in(file: Path) -> list[ast.Call]:
    return [node for node in ast.walk(tree_of(file)) if isinstance(node, ast.Call)]


def test_every_text_has_an_encoding():
    wrong = []
    for file in MODULES:
        for call in calls_in(file):
            called = ast.unparse(call.func)
            words = {keyword.arg for keyword in call.keywords}
            mode = next((ast.unparse(arg) for arg in call.args[1:2]), "")
            is_ours = called == "binaries.read_text"  # a function of machine/, which says the encoding itself
            is_text = called.endswith((".read_text", ".write_text")) or (called == "open" and "b" not in mode)
            if is_text and not is_ours and "encoding" not in words and not (called.endswith("_text") and len(call.args) > 1):
                wrong.append(f"{name_of(file)}:{call.lineno} {called}")

    assert wrong == []


def test_nothing_broad_is_caught_in_silence():
    wrong = []
    for file in MODULES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
                silent = len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
                bare = node.type is None
                said = re.search(r"#.* - \w", file.read_text(encoding="utf-8").splitlines()[node.lineno - 1])
                if bare or (broad and silent and not said):
                    wrong.append(f"{name_of(file)}:{node.lineno}")

    assert wrong == []


def test_types_of_the_schema_have_no_slots():
    assert [name_of(file) for file in (SOURCES / "hotkernel" / "schema").glob("*.py") for call in calls_in(file)
            if any(keyword.arg == "slots" for keyword in call.keywords)] == []


def test_the_terminal_alone_prints():
    may = {"hotkernel/cli.py", "hotkernel/install.py", "hotkernel/machine/ncu_reader.py"}  # a script whose answer is its output
    printing = {name_of(file) for file in MODULES if file.is_relative_to(SOURCES / "hotkernel") for call in calls_in(file)
                if ast.unparse(call.func) == "print"}

    assert printing - may == {"hotkernel/referee.py"}  # its answer to the tool that started it


# The Python it runs on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted((SOURCES / "hotkernel_contract").glob("*.py")), ids=name_of)
def test_the_contract_is_written_in_python_3_9(file):
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))

    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, getattr(ast, "Match", ()))]
    # the grammar takes these and 3.9 does not: zip(strict=…), dataclass(slots=…), `int | None` that is evaluated
    younger = {"strict", "slots", "kw_only"}
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in younger]
    is_lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    annotated = any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and ast.unparse(node.right) == "None"
                    for node in ast.walk(tree))
    assert is_lazy or not annotated


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/*.py")), ids=name_of)
def test_what_the_users_python_runs_is_written_in_python_3_9(file):
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_the_server_asks_for_the_python_that_it_is_written_in():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["requires-python"] == ">=3.11"
    for file in (path for path in MODULES if path.is_relative_to(SOURCES / "hotkernel")):
        ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 11))


# Nobody's machine -----------------------------------------------------------------------------------------------------


def test_the_pattern_tells_a_machines_path_from_an_example():
    own = "/" + "work"

    assert all(MACHINE_PATHS.search(text) for text in (f"see {own}/main", f"'{own}'", "/home/" + "jane/k"))
    assert not MACHINE_PATHS.search(f"/mnt/c{own}/k.py, artwork/x, at{own}s, /home/user/k")


def test_no_file_names_a_path_of_a_machine():
    wrong = []
    for file in tracked():
        content = file.read_bytes()
        if b"\0" in content or file.suffix in (".xz", ".gz", ".png"):
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if MACHINE_PATHS.search(line) and file != Path(__file__):
                wrong.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}")

    assert wrong == []
