"""The pages' tests import the writers that lie beside them by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
