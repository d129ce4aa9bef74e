"""Serves the sample tools over HTTP on loopback, for the official conformance runner, which speaks nothing else.

    python http_server.py PORT

hotkernel itself is served over stdio alone; this is the same server object behind the SDK's own HTTP application.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import uvicorn
from samples import SAMPLES

from hotkernel.mcp.jobs import Engine
from hotkernel.mcp.surroundings import Surroundings
from hotkernel.mcp_server import build

if __name__ == "__main__":
    server = build(SAMPLES, Surroundings.of(os.environ, Path.cwd()), Engine())
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
