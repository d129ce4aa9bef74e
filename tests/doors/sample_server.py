"""`python sample_server.py` is `hotkernel` with no arguments, with the sample tools instead of the real ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from samples import SAMPLES

from hotkernel.mcp_server import main

if __name__ == "__main__":
    sys.exit(main(listed=SAMPLES))
