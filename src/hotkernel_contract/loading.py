"""Loads the user's own: a function by its name, a file as a module, a tensor from a file; judges nothing."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import json
import re
import struct
import sys
from importlib import machinery
from pathlib import Path
from typing import Any, Callable, List, Optional

import torch

from hotkernel_contract.spec import FILE, FP8, TargetError

_NPY_DTYPES = {
    "<f8": torch.float64, "<f4": torch.float32, "<f2": torch.float16, "<i8": torch.int64, "<i4": torch.int32, "<i2": torch.int16,
    "|i1": torch.int8, "|u1": torch.uint8, "|b1": torch.bool,
}
_SAFE_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}
_SAFE_DTYPES.update({"F8_" + name[7:11].upper(): dtype for name, dtype in FP8.items()})


def load_function(spec: str, beside: str = "") -> Callable[..., Any]:
    """`torch.nn.functional:gelu`, or `./mykernels.py:fused` with a path relative to the folder of the file `beside`.

    Raises TargetError that says what is missing.
    """
    module_name, _, name = spec.rpartition(":")
    if not module_name or not name:
        raise TargetError("%r must be module:function or file.py:function" % spec)
    if module_name.endswith(".py"):
        path = Path(module_name)
        if not path.is_absolute() and beside:
            path = Path(beside).resolve().parent / path
        module = load_file(path)
    else:
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise TargetError("cannot import %s: %s" % (module_name, error)) from error
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise TargetError("%s has no %r; it has %s" % (module_name, name, ", ".join(names[:20]) or "no function"))
        found = getattr(found, part)
    if not callable(found):
        raise TargetError("%s is no function" % spec)
    return found


def load_file(path: Path, name: str = "") -> Any:
    """The module that a file is, under a name that is not `__main__`. Its folder comes last on sys.path: what lies there stands
    in for no installed module. It and what is imported from there are compiled from their sources, whatever lies in __pycache__.
    """
    path = path.resolve()
    if not path.is_file():
        raise TargetError("no such file: %s" % path)
    # one name for one file: two files of one stem must not meet in sys.modules, and a re-import must find the first
    name = name or "hotkernel_%s_%s" % (re.sub(r"\W", "_", path.stem), hashlib.sha256(str(path).encode()).hexdigest()[:8])
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        if _finder not in sys.path_hooks:
            sys.path_hooks.insert(0, _finder)
        sys.path.append(str(path.parent))
        _own_folders.append(path.parent)
        sys.path_importer_cache.pop(str(path.parent), None)
    spec = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path)))
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _FromSource(machinery.SourceFileLoader):
    """Compiles what is written: a compiled file beside it may be of something else, and say that it need not be compared."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(machinery.FileFinder):
    """Of a folder of the user's own: what torch itself would import, were it installed, is not looked for there."""

    def find_spec(self, fullname: str, target: Any = None) -> Any:
        return None if fullname in _TORCHS else super().find_spec(fullname, target)


_TORCHS = ("triton", "numpy", "sympy", "scipy", "pandas", "optree", "dill", "torchvision", "torchaudio", "torch_tensorrt",
           "intel_extension_for_pytorch", "habana_frameworks", "tensorboard", "yaml", "networkx", "jinja2", "fsspec")
_own_folders: List[Path] = []


def _finder(folder: str) -> machinery.FileFinder:
    """Of the folders that files were loaded from, and those within."""
    path = Path(folder).resolve()
    if not any(own == path or own in path.parents for own in _own_folders):
        raise ImportError(folder)
    return _Finder(folder, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
                   (_FromSource, machinery.SOURCE_SUFFIXES))


def parameters_of(function: Callable[..., Any]) -> Optional[List[str]]:
    """Names of the parameters, or None for a function that does not say (built-ins)."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def load_tensor(path: Path, key: str = "") -> torch.Tensor:
    """The tensor `key` of a .pt or .safetensors file (it may go where there is one), or what a .npy holds. Raises TargetError."""
    try:
        if path.suffix == ".npy":
            return _from_npy(path)
        if path.suffix == ".safetensors":
            return _from_safetensors(path, key)
        if path.suffix in (".pt", ".pth", ".bin"):
            return _picked(torch.load(path, map_location="cpu", weights_only=True), key, path)
    except TargetError:
        raise
    except Exception as error:
        raise TargetError("%s cannot be read: %s: %s" % (path, type(error).__name__, str(error)[:300])) from error
    raise TargetError("%s: a tensor's file ends in .pt, .safetensors or .npy" % path)


def beside_caller(spec: str) -> Path:
    """The path of `file=weights.pt#key`; a relative one is relative to the file that makes the target, further up the stack."""
    path = Path(spec[len(FILE):].partition("#")[0])
    frame = sys._getframe(1)
    while frame.f_back and (frame.f_globals.get("__name__") or "").startswith("hotkernel_contract"):
        frame = frame.f_back
    file = frame.f_globals.get("__file__")
    return (path if path.is_absolute() or not file else Path(file).parent / path).resolve()


def _picked(found: Any, key: str, path: Path) -> torch.Tensor:
    """The tensor that `key` names in what a .pt file holds; the only one where there is one."""
    if isinstance(found, torch.Tensor) and not key:
        return found.detach()
    tensors = {name: x for name, x in found.items() if isinstance(x, torch.Tensor)} if isinstance(found, dict) else {}
    if not key and len(tensors) == 1:
        return next(iter(tensors.values())).detach()
    if key not in tensors:
        raise _no_tensor(path, key, tensors)
    return tensors[key].detach()


def _no_tensor(path: Path, key: str, names: Any) -> TargetError:
    return TargetError("%s has no tensor %r; it has %s: name one after #" % (path, key, ", ".join(map(str, names)) or "none"))


def _from_safetensors(path: Path, key: str) -> torch.Tensor:
    """Its header is JSON behind eight bytes of length; the tensor's bytes lie at the offsets that it names."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = {name: entry for name, entry in json.loads(file.read(size)).items() if name != "__metadata__"}
        if not key and len(header) == 1:
            key = next(iter(header))
        if key not in header:
            raise _no_tensor(path, key, header)
        entry = header[key]
        start, end = entry["data_offsets"]
        file.seek(8 + size + start)
        return torch.frombuffer(bytearray(file.read(end - start)), dtype=_SAFE_DTYPES[entry["dtype"]]).view(entry["shape"])


def _from_npy(path: Path) -> torch.Tensor:
    """Its header is a Python literal behind a magic word, two bytes of version and its own length."""
    with open(path, "rb") as file:
        magic, major = file.read(6), file.read(2)[0]
        if magic != b"\x93NUMPY":
            raise TargetError("%s is no .npy file" % path)
        (size,) = struct.unpack("<H", file.read(2)) if major == 1 else struct.unpack("<I", file.read(4))
        header = ast.literal_eval(file.read(size).decode("latin-1"))
        if header["descr"] not in _NPY_DTYPES:
            raise TargetError("%s holds %s, which is none of %s" % (path, header["descr"], ", ".join(_NPY_DTYPES)))
        flat = torch.frombuffer(bytearray(file.read()), dtype=_NPY_DTYPES[header["descr"]])
    shape = header["shape"]
    return flat.view(shape[::-1]).permute(*range(len(shape))[::-1]) if header["fortran_order"] else flat.view(shape)
