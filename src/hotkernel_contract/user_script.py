"""Runs a user's script as plain python would, or loads it and hands out the function that is one step; measures nothing."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional


class UserScript:
    """A script with its arguments; of what it prints nothing reaches the standard output of this process."""

    def __init__(self, script: str, arguments: List[str], step: str = "") -> None:
        self.path, self.step_name = Path(script).resolve(), step
        self.values: Dict[str, Any] = {}  # its global names, once it ran or was loaded
        sys.argv = [script, *arguments]
        sys.path.insert(0, str(self.path.parent))

    def load(self) -> Optional[Callable[[], Any]]:
        """The function that is one step, of the script loaded as a module; None for a script that is run as a whole."""
        if not self.step_name:
            return None
        # by its own name, as an import would have it: other files of the user's may import it too
        name = self.path.stem if self.path.stem.isidentifier() and self.path.stem not in sys.modules else "hotkernel_script"
        spec = importlib.util.spec_from_file_location(name, self.path)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules[name] = module
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        self.values = vars(module)
        step = self.values.get(self.step_name)
        if not callable(step):
            known = ", ".join(each for each, value in self.values.items() if callable(value) and not each.startswith("_"))
            raise LookupError(
                "%s defines no function %r at its top level (when a step is named, what is under `if __name__ == \"__main__\"` "
                "does not run); it has %s" % (self.path.name, self.step_name, known[:300] or "none"))
        return step  # type: ignore[no-any-return]

    def run(self) -> None:
        """The whole script, under the name `__main__`; an exit with another status than 0 raises SystemExit."""
        try:
            self.values = runpy.run_path(str(self.path), run_name="__main__")
        except SystemExit as stop:
            if stop.code not in (None, 0):
                raise

    def is_of_script(self, module_name: str) -> bool:
        """Whether what says that it is of this module is the script's own."""
        if module_name == "__main__":
            return True
        file = getattr(sys.modules.get(module_name), "__file__", None)
        return bool(file) and Path(str(file)).resolve() == self.path


def synchronise() -> None:
    """Wait for the card, where it was used."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
