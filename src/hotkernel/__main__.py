"""`python -m hotkernel`: the terminal's door, where the script `hotkernel` is not on the PATH."""

import sys

from hotkernel.cli import main

if __name__ == "__main__":
    sys.exit(main())
