"""Says how a module is made anew without its constructor: class, attributes, shapes of weights; runs no code of it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, Dict, List

import torch

from hotkernel_contract.observed_call import Unfit, is_plain, plain

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


def lines_of(module: torch.nn.Module, script: Any, kept: Dict[str, torch.Tensor]) -> List[str]:
    """Source lines that make a module of this kind called `module`; what they load by name goes into `kept`. Raises Unfit."""
    return list(_lines(module, "module", script, kept))


def shape_of(module: torch.nn.Module, script: Any) -> str:
    """A module's kind as one text: weights that differ in their numbers alone are one kind."""
    return "\n".join(re.sub(r"(drawn\(.*), \S+, \S+\)", r"\1)", line) for line in lines_of(module, script, {}))


def _lines(module: torch.nn.Module, name: str, script: Any, kept: Dict[str, torch.Tensor]) -> List[str]:
    lines = ["%s = bare(%s)" % (name, place_of(type(module), script))]
    for attribute, value in vars(module).items():
        if attribute not in _OF_EVERY_MODULE:
            lines.append("%s.%s = %s" % (name, attribute, _attribute(name, attribute, value, script, kept)))
    for leaf, x in module._parameters.items():
        lines.append("%s.register_parameter(%r, %s)" % (name, leaf, "None" if x is None else _drawn(x)))
    for leaf, x in module._buffers.items():
        lines.append("%s.register_buffer(%r, %s)" % (name, leaf, "None" if x is None else _kept(name + "." + leaf, x, kept)))
    for child, inner in module._modules.items():
        if inner is None:
            lines.append("%s.add_module(%r, None)" % (name, child))
            continue
        if inner.training and isinstance(inner, torch.nn.modules.dropout._DropoutNd) and inner.p:
            raise Unfit("its %s is in training: what it gives is random" % child)
        variable = "%s_%s" % (name, child)
        lines += [*_lines(inner, variable, script, kept), "%s.add_module(%r, %s)" % (name, child, variable)]
    return lines


def _attribute(name: str, attribute: str, value: Any, script: Any, kept: Dict[str, torch.Tensor]) -> str:
    if isinstance(value, torch.Tensor):
        return _kept(name + "." + attribute, value, kept)
    if isinstance(value, torch.dtype):
        return str(value)
    if is_plain(value):
        return repr(plain(value)) if not isinstance(value, list) else repr(list(plain(value)))
    if callable(value) and getattr(value, "__qualname__", ""):
        return "found(%s)" % place_of(value, script)
    raise Unfit("its attribute %s is a %s, which nothing says how to make anew" % (attribute, type(value).__name__))


def place_of(found: Any, script: Any) -> str:
    """The words by which a target's file loads a class or function: a place, and for other files of the user's their folder."""
    module_name, qualname = getattr(found, "__module__", None) or "builtins", found.__qualname__
    if "<" in qualname:
        raise Unfit("%s is defined inside a function, where no other file finds it" % qualname)
    if script.is_of_script(module_name):
        return repr("%s:%s" % (script.path, qualname))
    module = importlib.import_module(module_name)
    holder: Any = module
    for part in qualname.split("."):
        holder = getattr(holder, part, None)
    if holder is not found:
        raise Unfit("%s:%s is another thing than the one in use" % (module_name, qualname))
    file = getattr(module, "__file__", None)
    is_users = bool(file) and script.path.parent in Path(str(file)).resolve().parents \
        and not any("site-packages" in str(parent) for parent in Path(str(file)).resolve().parents)
    return repr("%s:%s" % (module_name, qualname)) + (", %r" % str(script.path.parent) if is_users else "")


def _drawn(x: torch.Tensor) -> str:
    if not x.dtype.is_floating_point:
        raise Unfit("a parameter is of %s" % x.dtype)
    wide = x.detach().double()
    spread = wide.std().item() if x.numel() > 1 else 0.0
    return "drawn(%s, %s, %.6g, %.6g)" % (tuple(x.shape), x.dtype, wide.mean().item(), spread)


def _kept(name: str, x: torch.Tensor, kept: Dict[str, torch.Tensor]) -> str:
    kept[name] = x.detach().cpu().clone()
    return "kept[%r]" % name


def weights_of(module: torch.nn.Module) -> List[Any]:
    """Where a module's floating-point weights and buffers are: (table, leaf, name), as ModuleCall names them."""
    found, seen = [], {}  # type: ignore[var-annotated]
    for prefix, owner in module.named_modules():
        for table in (owner._parameters, owner._buffers):
            for leaf, x in table.items():
                if x is not None and x.dtype.is_floating_point and id(x) not in seen:
                    seen[id(x)] = True
                    found.append((table, leaf, prefix + "." + leaf if prefix else leaf))
    return found


