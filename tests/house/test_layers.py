"""Who may import whom, held by a table; and what a light start must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
ROOMS = ("harness", "judge", "machine", "profilers", "records", "scaffold")
BELOW = ("schema", "errors")

# What a part of `hotkernel` may import of `hotkernel`, itself and `__version__` aside.
ALLOWED: dict[str, tuple[str, ...]] = {
    "schema": (),
    "errors": (),
    "judge": BELOW,
    "profilers": BELOW,
    "machine": BELOW,
    "records": BELOW,
    "scaffold": BELOW,
    "harness": (*BELOW, "machine"),
    "session": (*BELOW, "machine", "harness"),
    "parameter": BELOW,
    "tool": (*BELOW, "parameter", "session"),
    "referee": (*BELOW, *ROOMS),
    "tools": (*BELOW, *ROOMS, "session", "parameter", "tool", "referee", "selftest"),
    "render": BELOW,
    "arguments": (*BELOW, "parameter", "tool"),
    "install": (*BELOW, "records"),
    "cli": (*BELOW, "arguments", "install", "machine", "mcp_server", "render", "session", "tool", "tools"),
    "mcp": (*BELOW, *ROOMS, "parameter", "render", "session", "tool", "tools"),
    "mcp_server": (*BELOW, "machine", "mcp", "tool", "tools"),
    "__main__": ("cli",),
    "selftest": (),
}
# What of the user's side the server may import: the words on the wire, which need no torch.
CONTRACT_ALLOWED = {"hotkernel_contract", "hotkernel_contract.protocol"}
CONTRACT_LIBRARIES = {"torch", "triton", "boot"}  # boot: a script beside it binds the package through it


def modules(package: str) -> list[Path]:
    return sorted((SOURCE / package).rglob("*.py"))


def imports(file: Path) -> set[str]:
    """Every module that a file names in an import, at any depth, as full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            found.add(str(node.module))
            if node.module in ("hotkernel", "hotkernel_contract"):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part_of(module: str) -> str:
    """`judge` of `hotkernel.judge.verdict`."""
    return module.split(".")[1] if "." in module else ""


@pytest.mark.parametrize("file", modules("hotkernel"), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_down(file: Path) -> None:
    own = file.relative_to(SOURCE / "hotkernel").parts[0].removesuffix(".py")
    ours = {part_of(name) for name in imports(file) if name.split(".")[0] == "hotkernel"} - {"", "__version__", own}

    assert ours <= set(ALLOWED.get(own, ())), f"{own} may not import {sorted(ours - set(ALLOWED.get(own, ())))}"


@pytest.mark.parametrize("file", modules("hotkernel"), ids=lambda file: str(file.relative_to(SOURCE)))
def test_the_server_has_no_torch_and_mcp_stays_in_its_door(file: Path) -> None:
    named = imports(file)
    roots = {name.split(".")[0] for name in named}

    assert not roots & {"torch", "triton", "numpy"}
    assert {name for name in named if name.startswith("hotkernel_contract")} <= CONTRACT_ALLOWED
    if "mcp" not in file.relative_to(SOURCE / "hotkernel").parts[0]:
        assert "mcp" not in roots


@pytest.mark.parametrize("file", modules("hotkernel_contract"), ids=lambda file: file.name)
def test_the_contract_needs_the_standard_library_and_torch_alone(file: Path) -> None:
    roots = {name.split(".")[0] for name in imports(file)}

    assert roots <= sys.stdlib_module_names | CONTRACT_LIBRARIES | {"hotkernel_contract"}


def test_every_part_of_the_package_stands_in_the_table() -> None:
    parts = {entry.name.removesuffix(".py") for entry in (SOURCE / "hotkernel").iterdir()
             if entry.suffix == ".py" or (entry / "__init__.py").exists()}

    assert parts - {"__init__"} <= set(ALLOWED)


def test_the_terminals_door_loads_nothing_heavy() -> None:
    code = ("import sys, hotkernel.cli; "
            "print([n for n in ('mcp', 'pydantic', 'torch', 'rich', 'psutil', 'pynvml') if n in sys.modules])")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True,
                          env={"PYTHONPATH": str(SOURCE), "PATH": ""})

    assert done.stdout.strip() == "[]"
