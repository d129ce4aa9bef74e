"""Opens reports: SQLite, `.ncu-rep` by NVIDIA's ncu_report, traces event by event, text; hands on plain values."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import re
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from hotkernel.errors import ToolError
from hotkernel.machine import ncu_reader
from hotkernel.machine.process import Job

HEAD_BYTES = 65_536
TEXT_LIMIT_BYTES = 200_000_000  # a raw page of 1,000 launches is some 60 MB
CHUNK_CHARS = 1_000_000
NCU_TIMEOUT_S = 300.0  # a report with its modules and a thousand launches has hundreds of megabytes
PROBE_TIMEOUT_S = 60.0
EVENT_LIMIT_CHARS = 16_000_000  # one event is never longer, stack and shapes included
NCU_REPORT_FIX = "pip install 'hotkernel[ncu]' (NVIDIA's ncu-report), or put Nsight Compute's ncu on PATH"

_LONE_BACKSLASH = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_NEXT_EVENT = re.compile(r'\{\s*"(?:ph|cat|name|pid|ts)"\s*:')


def head(path: Path) -> bytes:
    """The first bytes of a file, unpacked where it is gzip."""
    with _translated(path), path.open("rb") as file:
        start = file.read(HEAD_BYTES)
        if start.startswith(b"\x1f\x8b"):
            with gzip.open(path, "rb") as unpacked:
                return unpacked.read(HEAD_BYTES)
        return start


def text(path: Path) -> str:
    """A text file, in UTF-8 or in UTF-16 with its mark; bytes that are neither become a replacement character."""
    with _translated(path):
        size = path.stat().st_size
        if size > TEXT_LIMIT_BYTES:
            raise ToolError(f"{path.name} has {size:,} bytes, too many for a text report",
                            fix="export a summary instead, or fewer launches")
        content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    return content.decode("utf-8-sig", "replace")


@contextlib.contextmanager
def database(path: Path) -> Iterator[Callable[[str], Iterator[tuple[Any, ...]]]]:
    """Opens a SQLite file for reading alone and gives what runs a query; the file is not touched."""
    with _translated(path):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            yield lambda sql: iter(connection.execute(sql))
        finally:
            connection.close()


def columns(ask: Callable[[str], Iterator[tuple[Any, ...]]]) -> dict[str, set[str]]:
    """The tables that hold anything, each with its columns."""
    names = [name for (name,) in ask("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
    return {name: {row[1] for row in ask(f'PRAGMA table_info("{name}")')} for name in names if '"' not in name}


def has_ncu_report() -> bool:
    """Whether NVIDIA's ncu_report is installed beside hotkernel."""
    return importlib.util.find_spec("ncu_report") is not None


def ncu_report_version(job: Job) -> str | None:
    """The version of NVIDIA's reader, asked of a process that loads it; None where it does not load."""
    code = "import ncu_report, importlib.metadata as known; print(known.version('ncu-report'))"
    finished = job.run([sys.executable, "-P", "-c", code], timeout_s=PROBE_TIMEOUT_S)
    return finished.stdout.strip() if finished.ok else None


def ncu_actions(job: Job, path: Path, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Every launch of a `.ncu-rep`: names, the wanted metrics as (value, unit), and its rules.

    Raises ToolError when the file is no such report.
    """
    actions: list[dict[str, Any]] = _ncu_read(job, path, wanted)
    return actions


def ncu_launch(job: Job, path: Path, number: int, wanted: Sequence[str]) -> dict[str, Any]:
    """One launch of a `.ncu-rep`: the wanted metrics, its instructions with their counters, the imported sources."""
    launch: dict[str, Any] = _ncu_read(job, path, wanted, "--launch", str(number))
    return launch


def _ncu_read(job: Job, path: Path, wanted: Sequence[str], *options: str) -> Any:
    """What NVIDIA's reader says, in a process of its own, which a damaged file can end.

    `-P` keeps the folder of the script off its path; PYTHONPATH counts, as it may be what has ncu_report.
    """
    with _translated(path), path.open("rb"):
        pass  # a file that cannot be read is told as such
    with tempfile.TemporaryDirectory(prefix="hotkernel-ncu-") as folder:
        out = Path(folder) / "read.json"
        argv = [sys.executable, "-P", ncu_reader.__file__, *options, str(path), str(out), *wanted]
        finished = job.run(argv, timeout_s=NCU_TIMEOUT_S)
        if finished.returncode == ncu_reader.NO_REPORT:
            raise ToolError(f"{path.name} cannot be read as an ncu report: {finished.stderr.strip()[-300:]}",
                            fix="give the .ncu-rep that profile(tool=ncu) or `ncu -o` wrote, copy it again or profile "
                            "again; a newer report needs a newer ncu-report")
        if finished.returncode == ncu_reader.NO_READER:
            raise ToolError(f"NVIDIA's ncu-report does not load: {finished.stderr.strip()[-300:]}", fix=NCU_REPORT_FIX)
        if not finished.ok:
            raise ToolError(f"{path.name} cannot be read: NVIDIA's reader broke on it, so the file is damaged",
                            fix="copy it again, or profile again", detail=finished.tail())
        return json.loads(out.read_text(encoding="utf-8"))


class Trace:
    """A torch.profiler trace, read event by event so that its size does not matter.

    Tolerant of what profilers are known to write: lone backslashes, control characters, bytes that are no UTF-8, an
    end in the middle. `skipped` counts events that could not be read, `cut_at` says where the file broke off.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = json.JSONDecoder(strict=False)
        self.skipped = 0
        self.cut_at: int | None = None  # characters
        self.device_names: dict[int, str | None] = {}

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Every event that is an object. Raises ToolError when the file is no trace."""
        with _translated(self._path), self._open() as file:
            reader = _Window(file)
            self._find_events(reader)
            yield from self._events(reader)

    def warnings(self) -> tuple[str, ...]:
        """What was lost, if anything."""
        said = []
        if self.skipped:
            said.append(f"{self.skipped} events of the trace were not valid JSON and were left out")
        if self.cut_at is not None:
            said.append(f"the trace breaks off after {self.cut_at:,} characters: what came later is missing")
        return tuple(said)

    def _open(self) -> IO[str]:
        with self._path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            return gzip.open(self._path, "rt", encoding="utf-8-sig", errors="replace")
        return self._path.open(encoding="utf-8-sig", errors="replace")

    def _find_events(self, reader: _Window) -> None:
        """Go to the first event; what stands before names the devices."""
        reader.fill(CHUNK_CHARS)
        if reader.rest().lstrip().startswith("["):
            reader.at = reader.buffer.index("[") + 1
            return
        while (match := re.search(r'"traceEvents"\s*:\s*\[', reader.buffer)) is None:
            if not reader.fill(len(reader.buffer) + CHUNK_CHARS) or len(reader.buffer) > 4 * EVENT_LIMIT_CHARS:
                raise ToolError(f"{self._path.name} is not a torch.profiler trace: its JSON has no traceEvents",
                                fix="give export_chrome_trace's file", detail=self._keys(reader.buffer))
        self._read_devices(reader.buffer[: match.start()])
        reader.at = match.end()

    def _keys(self, text: str) -> str:
        try:
            keys = list(self._decoder.decode(text))
        except ValueError as error:
            return f"it is not valid JSON either: {error}"
        return f"its keys: {', '.join(map(str, keys))[:200]}"

    def _read_devices(self, text: str) -> None:
        match = re.search(r'"deviceProperties"\s*:\s*(?=\[)', text)
        if match is None:
            return
        with contextlib.suppress(ValueError):
            for card in self._decoder.raw_decode(text, match.end())[0]:
                if isinstance(card, dict) and isinstance(card.get("id"), int):
                    self.device_names[card["id"]] = str(card.get("name") or "") or None

    def _events(self, reader: _Window) -> Iterator[Mapping[str, Any]]:
        while True:
            if not reader.next_value():
                self.cut_at = reader.read_so_far
                return
            if reader.buffer[reader.at] == "]":
                reader.fill(CHUNK_CHARS)
                self._read_devices(reader.rest())
                return
            event = self._one(reader)
            if event is None:
                return
            if isinstance(event, dict):
                yield event

    def _one(self, reader: _Window) -> Any:
        """The event at the window's start; {} for one that cannot be read; None when the file broke off within it."""
        try:
            event, reader.at = self._decoder.raw_decode(reader.buffer, reader.at)
            return event
        except ValueError:
            reader.fill(EVENT_LIMIT_CHARS)
        try:
            event, reader.at = self._decoder.raw_decode(reader.buffer, reader.at)
            return event
        except ValueError:
            reader.repair()
        try:
            event, reader.at = self._decoder.raw_decode(reader.buffer, reader.at)
            return event
        except ValueError:
            following = _NEXT_EVENT.search(reader.buffer, reader.at + 1)
        if following is None:
            self.cut_at = reader.read_so_far - len(reader.rest())
            return None
        self.skipped += 1
        reader.at = following.start()
        return {}


class _Window:
    """A moving piece of a text file."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._repaired_to = 0
        self.buffer = ""
        self.at = 0
        self.read_so_far = 0

    def rest(self) -> str:
        return self.buffer[self.at :]

    def fill(self, wanted: int) -> bool:
        """Have `wanted` characters ahead, if the file does; whether any were added."""
        lacking = wanted - (len(self.buffer) - self.at)
        more = self._file.read(max(lacking, CHUNK_CHARS)) if lacking > 0 else ""
        if more:
            self.read_so_far += len(more)
            self.buffer, self.at = self.buffer[self.at :] + more, 0
        return bool(more)

    def next_value(self) -> bool:
        """Go past commas and spaces to the next value; False at the end of the file."""
        while True:
            while self.at < len(self.buffer) and self.buffer[self.at] in ", \t\r\n":
                self.at += 1
            if len(self.buffer) - self.at > CHUNK_CHARS // 4 or not self.fill(CHUNK_CHARS):
                return self.at < len(self.buffer)

    def repair(self) -> None:
        """Double the backslashes that escape nothing: a Windows path that was written as it is."""
        self.buffer = _LONE_BACKSLASH.sub(lambda match: match[0] if match[1] else r"\\", self.rest())
        self.at = 0


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Say what is wrong with a file in a sentence."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ToolError(f"{path.name} is a broken gzip file: {error}", fix="copy or record it again") from None
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter for a table's name in a damaged file
        raise ToolError(f"{path.name} cannot be read as an nsys database: {error}",
                        fix="export it again: nsys export --type sqlite X.nsys-rep") from None
    except OSError as error:
        raise ToolError(f"{path.name} cannot be read: {error.strerror or error}", fix="check the file") from None
