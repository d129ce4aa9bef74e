"""Writes the text of a target's baseline and candidate; touches no file but the templates."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Template

from hotkernel.errors import ToolError
from hotkernel.scaffold import vendor
from hotkernel.scaffold.blueprint import Blueprint

_TEMPLATES = Path(__file__).parent / "templates"
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=]")
LINE_WIDTH = 120


def texts(plan: Blueprint, folder: Path, *, is_copy: bool) -> dict[str, str]:
    """The three files of a target as they stand in `folder`, by name."""
    names = plan.file_names
    return {names["contract"]: vendor.contract_text(), names["baseline"]: baseline_text(plan, folder),
            names["candidate"]: candidate_text(plan, is_copy=is_copy)}


def baseline_text(plan: Blueprint, folder: Path) -> str:
    """`<target>_baseline.py` as it stands in `folder`."""
    places = {"baseline": plan.function, "reference": plan.reference, "derive": plan.derive}
    imports, bindings, contract = [], [], "Target"
    for name, place in places.items():
        if place is None:
            continue
        if place.is_plain_import:
            imports.append(f"from {place.module} import {place.name} as {name}")
        else:
            contract = "Target, load_function"
            bindings.append(f'{name} = load_function({_shown(place.spec(folder))}, __file__)')
    values: dict[str, object] = {"name": plan.target, "function": _Name("baseline"), "inputs": plan.inputs, "dtype": plan.dtype}
    values["rotate"] = plan.rotate or plan.arguments[:1]
    if plan.reference:
        values |= {"reference": _Name("reference"), "reference_name": str(plan.reference)}
    if plan.derive:
        values |= {"derive": _Name("derive"), "takes": plan.takes}
    values |= plan.settings
    return _fill("baseline.py.template", target=plan.target, imports=_block(sorted(imports)), contract=contract,
                 bindings=_block(bindings), settings="\n".join(f"    {name}={_shown(value)}," for name, value in values.items()))


def candidate_text(plan: Blueprint, *, is_copy: bool) -> str:
    """`<target>_candidate.py`: the user's file with a function of that name below it, or one call."""
    head = _fill("candidate_head.template", target=plan.target, origin=f" in {plan.function.file.name}"
                 if is_copy and plan.function.file else "")
    foot = _fill("candidate_foot.template", target=plan.target)
    body = _copied(plan, plan.function.file) if is_copy and plan.function.file else _called(plan)
    return f"{head}{body}\n\n{foot}"


class _Name(str):
    """A text that stands in the file as it is."""


def _copied(plan: Blueprint, file: Path) -> str:
    source = read_source(file)
    kept = _without_main(source)
    wrapper = f"{plan.target}_candidate"
    if re.search(rf"^(async )?def {wrapper}\b", kept, re.MULTILINE):
        return kept
    return f"{kept}\n\n{_wrapper(plan, plan.function.name)}"


def _called(plan: Blueprint) -> str:
    place = plan.function
    if place.file:
        path = f"{place.file.as_posix()}:{place.name}"  # absolute: verify runs a copy of this file, elsewhere
        binding = f"from hotkernel_contract import load_function\n\nfunction = load_function({_shown(path)})"
        return f"{binding}\n\n\n{_wrapper(plan, 'function')}"
    return f"import {place.module}\n\n\n" + _wrapper(plan, f"{place.module}.{place.name}")


def _wrapper(plan: Blueprint, call: str) -> str:
    arguments = ", ".join(plan.arguments)
    return f"def {plan.target}_candidate({arguments}):\n    return {call}({arguments})\n"


def read_source(file: Path) -> str:
    """A Python file's text, in the encoding that it declares, without that declaration; raises ToolError."""
    import tokenize

    try:
        with tokenize.open(file) as opened:
            lines = opened.read().splitlines()
    except OSError as error:
        raise ToolError(f"{file} cannot be read: {error.strerror or error}", fix="give read permission on it") from None
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ToolError(f"{file} is no Python file: {error}", fix="name a Python source file") from None
    kept = [line for number, line in enumerate(lines) if not (number < 2 and (_COOKIE.match(line) or line.startswith("#!")))]
    return "\n".join(kept).strip("\n") + "\n"


def _without_main(source: str) -> str:
    """`source` without its `if __name__ == "__main__":`, which would run when the candidate does."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise ToolError(f"the file with the function is no valid Python: {error.msg} (line {error.lineno})",
                        fix="mend it first") from None
    lines = source.splitlines()
    for node in reversed(body):
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) and "__main__" in ast.unparse(node.test):
            del lines[node.lineno - 1:node.end_lineno]
    return "\n".join(lines).strip("\n") + "\n"


def _fill(name: str, **values: str) -> str:
    return Template((_TEMPLATES / name).read_text(encoding="utf-8")).substitute(values)


def _block(lines: list[str]) -> str:
    """Lines with a blank one below them; nothing where there is none."""
    return "".join(f"{line}\n" for line in lines) + ("\n" if lines else "")


def _shown(value: object) -> str:
    """A value as Python source, with the quotes of this house."""
    if isinstance(value, _Name):
        return str(value)
    if isinstance(value, str):
        text = repr(value)
        return '"' + text[1:-1] + '"' if text.startswith("'") and '"' not in text else text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_shown, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)
