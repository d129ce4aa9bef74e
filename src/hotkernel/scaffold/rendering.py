"""Writes the text of a target's baseline and candidate; touches no file but the templates."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Template

from hotkernel.errors import ToolError
from hotkernel.scaffold import vendor
from hotkernel.scaffold.blueprint import FILE, Blueprint, Seen, near_path

_TEMPLATES = Path(__file__).parent / "templates"
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=]")
_DTYPE = re.compile(r"torch\.[a-z]+[0-9]\w*")  # a dtype among a target's constants
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
    inputs = {name: _near_file(spec, folder) for name, spec in plan.inputs.items()}
    values: dict[str, object] = {"name": plan.target, "function": _Name("baseline"), "inputs": inputs, "dtype": plan.dtype}
    values["rotate"] = plan.rotate or plan.arguments[:1]
    if plan.reference:
        values |= {"reference": _Name("reference"), "reference_name": str(plan.reference)}
    if plan.derive:
        values |= {"derive": _Name("derive"), "takes": plan.takes}
    values |= _more(plan, folder, bindings)
    if any(line.startswith("other_") for line in bindings):
        contract = "Target, load_function"
    if "torch." in repr(values.get("constants", "")):
        imports.append("import torch")
    values |= plan.settings
    return _fill("baseline.py.template", target=plan.target, imports=_block(sorted(imports)), contract=contract,
                 bindings=_block(bindings), settings="\n".join(f"    {name}={_shown(value)}," for name, value in values.items()))


def _more(plan: Blueprint, folder: Path, bindings: list[str]) -> dict[str, object]:
    """What else the target says; the functions of other baselines are bound above it."""
    more, values = plan.more, dict[str, object]()
    if more.constants:
        values["constants"] = {name: _constant(value) for name, value in more.constants.items()}
    values |= more.settings
    if more.baselines:
        for name, place in more.baselines.items():
            bindings.append(f"other_{name} = load_function({_shown(place.spec(folder))}, __file__)")
        values["baselines"] = {name: _Name(f"other_{name}") for name in more.baselines}
    if more.cases:
        values["cases"] = {name: {**case, **({"constants": {each: _constant(v) for each, v in case["constants"].items()}}
                                             if "constants" in case else {})} for name, case in more.cases.items()}
    return values


def _constant(value: object) -> object:
    return _Name(value) if isinstance(value, str) and _DTYPE.fullmatch(value) else value


def _near_file(spec: str, folder: Path) -> str:
    """An input's words; one from a file names it as it lies from `folder`."""
    if not spec.startswith(FILE):
        return spec
    path, sharp, key = spec.removeprefix(FILE).partition("#")
    return f"{FILE}{near_path(Path(path), folder)}{sharp}{key}"


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
    if plan.seen and plan.seen.module:
        return (f"{kept}\n\nfrom hotkernel_contract import ModuleCall\n\n"
                f"module = ModuleCall.of({plan.function.name}{_constructed(plan)})\n\n\n{_wrapper(plan, 'module')}")
    return f"{kept}\n\n{_wrapper(plan, plan.function.name)}"


def _called(plan: Blueprint) -> str:
    place = plan.function
    if plan.seen and plan.seen.module:
        return _called_module(plan)
    if place.file:
        path = f"{place.file.as_posix()}:{place.name}"  # absolute: verify runs a copy of this file, elsewhere
        binding = f"from hotkernel_contract import load_function\n\nfunction = load_function({_shown(path)})"
        return f"{binding}\n\n\n{_wrapper(plan, 'function')}"
    return f"import {place.module}\n\n\n" + _wrapper(plan, f"{place.module}.{place.name}")


def _called_module(plan: Blueprint) -> str:
    """The module itself, called as the baseline's is: with its weights as an argument."""
    place = plan.function
    spec = f"{place.file.as_posix() if place.file else place.module}:{place.name}"
    made = f"load_function({_shown(spec)}){_constructed(plan)}"
    said = "# `weights` is a dict by the module's own names: weights[\"gate.weight\"]; nothing else of the module is needed.\n"
    return (f"from hotkernel_contract import ModuleCall, load_function\n\nmodule = ModuleCall.of({made})\n\n\n"
            f"{said}{_wrapper(plan, 'module')}")


def _constructed(plan: Blueprint) -> str:
    """The call that makes a module of its class; nothing for a module that is one."""
    if not plan.seen or plan.seen.module != "class":
        return ""
    return "(" + ", ".join(f"{name}={_shown(_constant(value))}" for name, value in plan.more.constants.items()) + ")"


def _wrapper(plan: Blueprint, call: str) -> str:
    seen = plan.seen or Seen(plan.arguments, (), ())
    places = [*seen.positional, *(["weights"] if seen.module else [])]
    words = [*seen.keywords, *seen.constants]
    given = ", ".join([*places, *(f"{name}={name}" for name in words)])
    return f"def {plan.target}_candidate({', '.join([*places, *words])}):\n    return {call}({given})\n"


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
