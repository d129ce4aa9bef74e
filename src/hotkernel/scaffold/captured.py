"""Says what target real calls make: the file with the call or module in it, and new_target's arguments; runs nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

CASES_LIMIT = 8
_TEMPLATES = Path(__file__).parent / "templates"
_TORCH_METHOD = re.compile(r"torch\.Tensor\.(?:__)?(?P<name>\w+?)(?:__)?")


@dataclass(frozen=True)
class Choice:
    """The calls that a target is made of, one a case, the first the heaviest; and the ones that are left out."""

    calls: tuple[Mapping[str, Any], ...]
    left_out: tuple[str, ...]

    @property
    def first(self) -> Mapping[str, Any]:
        return self.calls[0]


def choose(calls: Sequence[Mapping[str, Any]], time_us: Mapping[int, float]) -> Choice:
    """The form of call that takes the most time, with all its shapes as cases; `time_us` says what each kind of call takes."""
    def weight(at: int) -> tuple[float, int]:
        return time_us.get(at, 0.0), calls[at]["calls"]

    ranked = sorted(range(len(calls)), key=lambda at: (weight(at), -at), reverse=True)
    form = _form(calls[ranked[0]])
    chosen = [calls[at] for at in ranked if _form(calls[at]) == form]
    others = [calls[at] for at in ranked if _form(calls[at]) != form]
    left = [f"{each['calls']} calls of {_other(each, calls[ranked[0]])} ({each['text']}: {_inputs(each)})"
            for each in others]
    left += [f"{each['calls']} calls of one more shape ({_inputs(each)})" for each in chosen[CASES_LIMIT:]]
    return Choice(tuple(chosen[:CASES_LIMIT]), tuple(left))


def _form(call: Mapping[str, Any]) -> Any:
    """What calls of one target share: the order of arguments, the module, what is written, where it runs."""
    kept = tuple(name for name, each in call["inputs"].items() if each["kept"])
    return call["text"], tuple(call["inputs"]), call["tree"], tuple(call["writes"]), call["device"], kept


def _other(call: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    return "modules made otherwise" if call["tree"] != first["tree"] else "another form"


def _inputs(call: Mapping[str, Any]) -> str:
    return ", ".join(each["spec"] for each in call["inputs"].values())


def function_of(spellings: Sequence[str]) -> str:
    """The name of torch's by which a target calls what was spelled so: a method's as a function's."""
    named = sorted(spellings, key=lambda each: (not each.startswith("torch.nn.functional."), each.startswith("torch.Tensor.")))
    method = _TORCH_METHOD.fullmatch(named[0])
    return f"torch.Tensor.{method['name']}" if method else named[0]


def source(name: str, row: str, script: str, call: Mapping[str, Any], tensors: Path) -> str:
    """The file that a target is made of: a function with the call in it, or the module."""
    if call["lines"]:
        prefix, kept = f"{call['number']}.", ""
        if any("kept[" in line for line in call["lines"]):
            kept = (f"saved = torch.load({str(tensors)!r}, weights_only=True)\n"
                    f"kept = {{name[{len(prefix)}:]: x for name, x in saved.items() if name.startswith({prefix!r})}}\n")
        return _fill("captured_module.py.template", title=row, script=script, kept=kept, lines="\n".join(call["lines"]))
    parameters = ", ".join([*call["inputs"], *call["constants"]])
    return _fill("captured_operator.py.template", title=row, script=script, name=name, parameters=parameters,
                 function=function_of(call["spellings"]), call=call["text"])


def arguments(choice: Choice, tensors: Path) -> dict[str, Any]:
    """What new_target is told of these calls."""
    first = choice.first
    specs = {name: _spec(first, name, tensors) for name in first["inputs"]}
    more = [f"constant.{name}={_literal(value)}" for name, value in first["constants"].items()]
    if first["writes"]:
        more.append(f"writes={','.join(first['writes'])}")
    if first["lines"] and first["by_name"]:
        more.append(f"keywords={','.join(first['by_name'])}")
    if len(choice.calls) > 1:
        more += [f"case.{name}={text}" for name, text in zip(case_names(choice), _case_texts(choice, tensors), strict=True)]
    streams = [name for name, each in first["inputs"].items() if each["streams"] and not each["kept"]]
    floats = [each["spec"].split(":")[1] for each in first["inputs"].values() if "float" in each["spec"]]
    return {"shape": specs["x"], "extra": [f"{name}:{spec}" for name, spec in specs.items() if name != "x"],
            "dtype": floats[0] if floats else "fp32", "rotate": streams, "more": more,
            "device": "cpu" if first["device"] == "cpu" else ""}


def case_names(choice: Choice) -> list[str]:
    """A name for each case, of its first input's shape."""
    names: list[str] = []
    for call in choice.calls:
        name = "s" + call["inputs"]["x"]["spec"].split(":")[0]
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def reduction_of(call: Mapping[str, Any]) -> int:
    """As many terms as an element of this call's output may sum: for tolerances of fp32."""
    sizes = [int(size) for each in call["inputs"].values() for size in each["spec"].split(":")[0].split("x") if size.isdigit()]
    return max(sizes, default=1)


def _case_texts(choice: Choice, tensors: Path) -> list[str]:
    texts = []
    for call in choice.calls:
        inputs = [f"{name}:{_spec(call, name, tensors)}" for name in call["inputs"]]
        constants = [f"{name}:{_literal(value)}" for name, value in call["constants"].items()
                     if value != choice.first["constants"].get(name)]
        texts.append(" ".join([*inputs, *constants]))
    return texts


def _spec(call: Mapping[str, Any], name: str, tensors: Path) -> str:
    each = call["inputs"][name]
    return f"file={tensors}#{call['number']}.{name}" if each["kept"] else str(each["spec"])


def _literal(value: Any) -> str:
    """A constant as new_target reads it: a list is a tuple to it, a dtype its name."""
    if isinstance(value, list):
        return "(" + ",".join(map(_literal, value)) + ("," if len(value) == 1 else "") + ")"
    return value if isinstance(value, str) and value.startswith("torch.") else repr(value)


def _fill(template: str, **values: str) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)
