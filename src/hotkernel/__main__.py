"""`python -m hotkernel`: the terminal's door, where the script `hotkernel` is not on the PATH."""

import sys
from pathlib import Path

if not sys.flags.safe_path and (Path(sys.path[0] or ".") / "hotkernel_contract.py").exists():
    del sys.path[0]  # a target's folder, which `-m` has put first: its copy of the contract would stand before our package

from hotkernel.cli import main

if __name__ == "__main__":
    sys.exit(main())
