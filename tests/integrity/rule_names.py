"""Reads from the code every name that a verdict's rule can have, and every reason that makes a batch void."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
PLACES = ("hotkernel/referee.py", "hotkernel/harness", "hotkernel/judge", "hotkernel/tools/script_pairs.py",
          "hotkernel_contract/compare.py", "hotkernel_contract/outputs.py", "hotkernel_contract/oracle.py",
          "hotkernel_contract/card.py")
FROM_WORDS = {"throttled", "card_not_quiet"}  # made of the words of a reason (judge/verdict.py)
_NAME = re.compile(r"[a-z]+(_[a-z]+)*")


def rule_names() -> set[str]:
    """Every rule's name."""
    return FROM_WORDS | {name for file in _files() for name in _in_file(file)}


def void_reasons() -> set[str]:
    """The reasons of the batches and of referee.py, as they stand in a saved batch."""
    found = set()
    files = sorted((SOURCES / "hotkernel/harness").glob("*batches.py"))
    for node in (node for file in files for node in ast.walk(_tree(file))):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.add(node.value.value)
    for node in ast.walk(_tree(SOURCES / "hotkernel/referee.py")):
        if isinstance(node, ast.keyword) and node.arg == "void" and isinstance(node.value, ast.Constant):
            found.add(str(node.value.value))
    return found


def _files() -> Iterator[Path]:
    for place in PLACES:
        path = SOURCES / place
        yield from sorted(path.glob("*.py")) if path.is_dir() else [path]


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _in_file(file: Path) -> Iterator[str]:
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Call) and (_called(node) in ("fault", "wrong", "Fault")
                                           or ast.unparse(node.func) == "SideFault.of"):
            yield from _names(node.args[:2])
        elif isinstance(node, ast.keyword) and node.arg == "rule":
            yield from _names([node.value])
        elif isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) in (2, 3) and _is_told(node.elts):
            yield from _names(node.elts[:2])


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_told(parts: list[ast.expr]) -> bool:
    """(rule, sentence), (rule, kind, sentence) or (side, rule)."""
    first, second = parts[0], parts[1]
    if isinstance(first, ast.Attribute) and ast.unparse(first).startswith("Side."):
        return isinstance(second, ast.Constant)
    return isinstance(first, ast.Constant) and (
        isinstance(second, (ast.JoinedStr, ast.BinOp))
        or (isinstance(second, ast.Constant) and isinstance(second.value, str) and " " in second.value)
        or ast.unparse(second).startswith("VerdictKind."))


def _names(parts: list[ast.expr]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _NAME.fullmatch(part.value):
            yield part.value


def script_rules() -> set[str]:
    """The rules of script pairs that are put together: a side with what was wrong, a field that differs."""
    calls = [node for node in ast.walk(_tree(SOURCES / "hotkernel/harness/scripts.py"))
             if isinstance(node, ast.Call) and _called(node) == "ScriptFault"]
    pairs = (SOURCES / "hotkernel/tools/script_pairs.py").read_text(encoding="utf-8")
    differs = {"NAME_differs"} if 'f"{name}_differs"' in pairs else set()
    return differs | {f"SIDE_{name}" for call in calls for name in _names(call.args[:1])}
