"""Serves what can be read without a call: runs, board, records, the table of cards, the guide; writes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

import hotkernel
from hotkernel.mcp.answers import WHOLE_FOLDER
from hotkernel.mcp.surroundings import Surroundings
from hotkernel.records import calibrations, leaderboard, store
from hotkernel.records.state import state_dir
from hotkernel.render import clean

PACKAGE = Path(hotkernel.__file__).parent
GUIDE = PACKAGE / "skills" / "kernel-speedrun" / "SKILL.md"
CARDS = PACKAGE / "judge" / "gpu_specs.toml"
SHOWN = 200  # of the newest records, in the index
JSON = "application/json"
LIMIT = 400_000  # characters of one resource

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TARGET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")

Context = ServerRequestContext[Any, Any]


class Shelf:
    """The resources of one server."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.root = surroundings.roots[0]
        self.state = state_dir(surroundings.environment)
        self._static: dict[str, tuple[str, str, str, Callable[[], str]]] = {
            "runs": ("Records", "Every record of this project, the newest last", JSON, self._runs),
            "leaderboard": ("Leaderboard", "LEADERBOARD.md as it stands", "text/markdown", self._board),
            "gpus": ("Table of cards", "Peaks of known cards, each with its source", "application/toml",
                     lambda: _text(CARDS)),
            "calibration": ("Calibrations", "What the cards of this machine really reach", JSON,
                            self._calibrations),
            "guide": ("Guide", "How to make a kernel faster with these tools", "text/markdown", lambda: _text(GUIDE)),
        }

    async def listing(self, _context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        """resources/list: the same few always, so that clients which show only static ones show all."""
        return ListResourcesResult(resources=[
            Resource(uri=f"hotkernel://{name}", name=name, title=title, description=text, mime_type=kind)
            for name, (title, text, kind, _) in self._static.items()
        ])

    async def templates(self, _context: Context, _params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        """resources/templates/list."""
        offered = (
            ("record/{target}/{log}", "record", "One record, whole"),
            ("comparison/{id}", "comparison", "One verify's saved result, whole"),
            ("result/{id}", "result", "A result that was too large to be told"),
        )
        return ListResourceTemplatesResult(resource_templates=[
            ResourceTemplate(uri_template=f"hotkernel://{path}", name=name, description=text, mime_type=JSON)
            for path, name, text in offered
        ])

    async def read(self, _context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """resources/read: whole, or an error that names what there is."""
        kind, text = self.text(str(params.uri))
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=kind,
                                                                 text=clean(text, LIMIT, lines=True))])

    def text(self, uri: str) -> tuple[str, str]:
        """The MIME type and the text of a resource; MCPError when there is none."""
        name, _, rest = uri.removeprefix("hotkernel://").partition("/")
        if uri.startswith("hotkernel://") and name in self._static and not rest:
            return self._static[name][2], self._static[name][3]()
        path = self._file(name, rest.split("/")) if uri.startswith("hotkernel://") else None
        if path is None or not path.is_file():
            known = ", ".join(f"hotkernel://{each}" for each in self._static)
            raise MCPError(INVALID_PARAMS, f"there is no resource {clean(uri, 120)}; there are {known}", {"uri": uri})
        return JSON, _text(path)

    def targets(self) -> list[str]:
        """The names of targets that have a record or a baseline here."""
        recorded = {each.record.target for each in store.read(self.root).records}
        made = {path.name.removesuffix("_baseline.py") for path in self.root.glob("*_baseline.py")}
        return sorted(recorded | made)

    def _file(self, name: str, parts: list[str]) -> Path | None:
        if name == "record" and len(parts) == 2 and _TARGET.fullmatch(parts[0]):
            log = parts[1].removesuffix(".json")
            return self.root / store.RESULTS / parts[0] / f"{log}.json" if _ID.fullmatch(log) else None
        if len(parts) != 1 or not _ID.fullmatch(parts[0]):
            return None
        folders = {"comparison": self.state / "comparisons", "result": self.root / WHOLE_FOLDER}
        return folders[name] / f"{parts[0]}.json" if name in folders else None

    def _runs(self) -> str:
        rows = [
            {"uri": f"hotkernel://record/{each.record.target}/{Path(each.log).stem}", "target": each.record.target,
             "timestamp": each.record.timestamp, "verdict": str(each.record.comparison.verdict),
             "speedup": each.record.comparison.speedup, "note": each.record.note, "who": each.record.who}
            for each in store.read(self.root).records
        ]
        return json.dumps({"records": rows[-SHOWN:], "total": len(rows)}, indent=1)

    def _board(self) -> str:
        board = self.root / leaderboard.NAME
        return _text(board) if board.is_file() else "No leaderboard yet: record a verdict first.\n"

    def _calibrations(self) -> str:
        kept = (self.state / calibrations.FOLDER).glob("*.json")
        return json.dumps({"calibrations": list(_read_all(kept))}, indent=1)


def _read_all(paths: Iterable[Path]) -> Iterable[Any]:
    for path in sorted(paths):
        try:
            yield json.loads(_text(path))
        except ValueError:
            yield {"path": str(path), "error": "no JSON"}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
