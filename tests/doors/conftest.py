"""The doors' tests import their sample tools by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
