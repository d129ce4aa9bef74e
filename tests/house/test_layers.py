"""Who may import whom: the table of the house, held against every import in the sources."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
SERVER, CONTRACT = SOURCES / "hotkernel", SOURCES / "hotkernel_contract"

NOUNS = {"schema", "errors"}
ROOMS = {"harness", "judge", "profilers", "machine", "plots", "records", "scaffold"}
# What a part of src/hotkernel may import of src/hotkernel, itself left out. Imports point down this table.
MAY_IMPORT = {
    # doors: translate, decide nothing
    "cli": {"arguments", "completion", "exit_status", "install", "machine", "mcp_server", "progress", "render", "session",
            "tool", "tools", *NOUNS},
    "__main__": {"cli"},
    "completion": {"arguments", "exit_status", "parameter", "tool", "tools", *NOUNS},
    "progress": {"render", *NOUNS},
    "exit_status": set(),
    "mcp_server": {"mcp", "tool", "tools"},
    "mcp": {"harness", "machine", "parameter", "records", "render", "session", "tool", "tools", *NOUNS},
    "install": {"records", *NOUNS},
    "arguments": {"exit_status", "parameter", "tool", *NOUNS},
    "render": NOUNS,
    # what a tool is
    "tool": {"parameter", *NOUNS},
    "parameter": NOUNS,
    # the referee: a process of its own, below the tools that start it
    "referee": {"answer", "harness", "judge", "machine", "records", *NOUNS},
    "answer": {"judge", *NOUNS},
    # recipes
    "tools": {"parameter", "referee", "session", "tool", *ROOMS, *NOUNS},
    "session": {"harness", "machine", *NOUNS},
    # rooms: they do not meet, except that harness may use machine
    "harness": {"machine", *NOUNS},
    **dict.fromkeys(ROOMS - {"harness"}, NOUNS),
    # nouns
    "schema": set(),
    "errors": set(),
}
# Whose third-party packages these are; everything else is the standard library's.
MAY_USE = {
    "machine": {"pynvml", "ncu_report"},
    "plots": {"matplotlib"},
    "records": {"filelock", "jinja2", "markupsafe", "platformdirs"},
    "tools": {"filelock", "psutil"},
    "progress": {"rich"},
    "render": {"rich"},
    "mcp": {"anyio", "mcp", "mcp_types", "pydantic"},
    "mcp_server": {"anyio", "mcp"},
}
MAY_IMPORT_CONTRACT = {"harness", "tools", "answer"}
# Of the standard library, what pure rooms do without: values in, values out.
TOUCHES = {"os", "subprocess", "socket", "threading", "multiprocessing", "time", "datetime", "tempfile", "shutil", "pathlib",
           "signal", "random", "secrets", "urllib", "http", "asyncio", "ctypes", "sqlite3", "logging"}


def parts_of(file: Path, root: Path) -> str:
    """The part of the house that a file is in: its folder, or its own name."""
    return file.relative_to(root).parts[0].removesuffix(".py")


def imports_of(file: Path) -> Iterator[str]:
    """Every module that a file imports anywhere in it, as a whole name; `from a import b` as a.b."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield from (f"{node.module}.{each.name}" for each in node.names)


def imports(root: Path) -> list[tuple[Path, str]]:
    return [(file, name) for file in sorted(root.rglob("*.py")) for name in imports_of(file)]


def calls_in(file: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]


def shown(file: Path) -> str:
    return str(file.relative_to(SOURCES))


def is_outside(name: str) -> bool:
    """Whether a module is somebody else's: not ours, not the standard library's."""
    first = name.split(".")[0]
    return first not in sys.stdlib_module_names and first not in ("hotkernel", "hotkernel_contract")


def test_every_part_of_the_house_has_its_line_in_the_table():
    parts = {parts_of(file, SERVER) for file in SERVER.rglob("*.py")} - {"__init__"}

    assert parts == set(MAY_IMPORT)


def test_imports_point_down():
    wrong = []
    for file, name in imports(SERVER):
        here = parts_of(file, SERVER)
        words = name.split(".")
        if words[0] == "hotkernel" and len(words) > 1 and here != "__init__":
            there = words[1]
            if there not in {here, "__version__", *MAY_IMPORT[here]}:
                wrong.append(f"{shown(file)} imports {name}")

    assert wrong == []


def test_the_table_has_no_cycle():
    def below(part: str, seen: tuple[str, ...] = ()) -> None:
        assert part not in seen, " -> ".join((*seen, part))
        for there in MAY_IMPORT[part]:
            below(there, (*seen, part))

    for part in MAY_IMPORT:
        below(part)


def test_of_the_contract_the_server_imports_the_words_on_the_wire_alone():
    wrong = [f"{shown(file)} imports {name}" for file, name in imports(SERVER) if name.startswith("hotkernel_contract")
             and (parts_of(file, SERVER) not in MAY_IMPORT_CONTRACT
                  # the package itself is asked only where its files lie
                  or name.split(".")[1:2] not in ([], ["protocol"]))]

    assert wrong == []


def test_the_contract_imports_nothing_of_the_servers():
    assert [f"{shown(file)} imports {name}" for file, name in imports(CONTRACT) if name.split(".")[0] == "hotkernel"] == []


def test_the_contract_stands_on_the_standard_library_torch_and_triton_alone():
    outside = {(file.name, name.split(".")[0]) for file, name in imports(CONTRACT) if is_outside(name)}

    # boot.py is a script: its own folder is how it finds itself before the package is bound
    assert {package for _, package in outside} <= {"torch", "triton", "boot"}
    assert {name for name, package in outside if package == "triton"} <= {"warming.py", "check_kernel.py", "loaded_target.py",
                                                                          "ceilings.py", "probes.py", "calibration.py"}


def test_no_torch_in_the_servers_python():
    assert [shown(file) for file, name in imports(SERVER) if name.split(".")[0] in ("torch", "triton", "numpy")] == []


def test_every_third_party_package_has_its_place():
    wrong = [f"{shown(file)} imports {name}" for file, name in imports(SERVER)
             if is_outside(name) and name.split(".")[0] not in MAY_USE.get(parts_of(file, SERVER), set())]

    assert wrong == []


def test_what_thinks_touches_nothing():
    wrong = [f"{shown(file)} imports {name}" for room in ("judge", "profilers") for file, name in imports(SERVER / room)
             if name.split(".")[0] in TOUCHES]
    wrong += [f"{shown(file)}:{call.lineno} calls {call.func.id}" for room in ("judge", "profilers", "schema")
              for file in (SERVER / room).rglob("*.py")
              for call in calls_in(file) if isinstance(call.func, ast.Name) and call.func.id in ("open", "print", "input")]

    assert wrong == []


def test_processes_are_started_in_the_room_for_it():
    starters = {shown(file) for file, name in imports(SERVER) if name.split(".")[0] in ("subprocess", "multiprocessing")
                for call in calls_in(file) if re.fullmatch(r"subprocess\.(Popen|run|check_\w+|call)", ast.unparse(call.func))}

    assert starters == {"hotkernel/machine/process.py", "hotkernel/machine/programs.py"}  # programs asks for versions alone


@pytest.mark.parametrize("module", ["hotkernel.cli", "hotkernel.tools", "hotkernel.session", "hotkernel.referee"])
def test_what_a_terminal_waits_for_loads_nothing_heavy(module):
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True,
                          timeout=60, check=True)
    loaded = set(done.stdout.split())

    heavy = {"mcp", "pydantic", "anyio", "torch", "triton", "numpy", "rich", "matplotlib", "PIL", "pynvml", "ncu_report"}
    assert "hotkernel" in loaded
    assert not loaded & heavy
