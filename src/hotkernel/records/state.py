"""Says where hotkernel keeps what outlives a call; writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "HOTKERNEL_STATE_DIR"


def state_dir(environment: Mapping[str, str]) -> Path:
    """The state folder, absolute and not yet made: HOTKERNEL_STATE_DIR, else the user's own.

    An empty value or an unexpanded `${…}` counts as unset.
    """
    named = environment.get(VARIABLE, "").strip()
    if named and not (named.startswith("${") and named.endswith("}")):
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_state_dir("hotkernel", appauthor=False)).absolute()
