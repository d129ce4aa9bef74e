"""hotkernel: hands on a GPU for a coding agent; holds the version and nothing else."""

__version__ = "0.2.0"
