"""The contract of a target, in the user's Python: standard library and torch, Python 3.9 and newer; nothing of the server's."""

PROTOCOL = 4

_PLACES = {"Input": "spec", "Target": "target", "TargetError": "spec", "ModuleCall": "call", "load_function": "loading",
           "Tolerance": "compare", "time_and_print": "line"}
__all__ = ["PROTOCOL", "Input", "ModuleCall", "Target", "TargetError", "Tolerance", "load_function", "time_and_print"]


def __getattr__(name):  # type: ignore[no-untyped-def]
    """Import late: the server's Python, which has no torch, reads `hotkernel_contract.protocol` alone."""
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module("hotkernel_contract." + _PLACES[name]), name)
    raise AttributeError("module 'hotkernel_contract' has no attribute %r" % name)
