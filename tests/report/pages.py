"""Makes folders with records for the report's tests: the repository's own, and one whose every text is hostile."""

from __future__ import annotations

import sys
from pathlib import Path

from hotkernel.records import store
from hotkernel.schema.explanation import Change, Difference
from hotkernel.schema.record import Record
from hotkernel.schema.report import ReportResult
from hotkernel.session import Session
from hotkernel.tools.report import report

sys.path.insert(0, str(Path(__file__).parents[1] / "records"))
from record_makers import compared

REPOSITORY = Path(__file__).parents[2]
OWN_DAY = "20261130"  # of records that later ones do not change
SCRIPT = "<script>document.title='taken'</script><img src=https://example.invalid/x.png onerror=alert(1)>"
UNSEEN = "\u202egpj.exe\u200b\x1b[31m\x00\x07"
LONG = "k" * 10_000


def session(folder: Path) -> Session:
    return Session(root=folder, environment={"HOTKERNEL_STATE_DIR": str(folder / "state")})


def page_of(folder: Path, target: str = "", *, png: bool = False, out: str = "report.html") -> tuple[str, ReportResult]:
    """The page of a folder's records, written into it."""
    result = report(session(folder), target, out=out, png=png)
    return Path(result.path).read_text(encoding="utf-8"), result


def own_records(folder: Path) -> Path:
    """A folder with this repository's first records, of one day, and the examples that they name."""
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    for log in (REPOSITORY / "results").glob(f"*/{OWN_DAY}-*"):
        (folder / "results" / log.parent.name).mkdir(parents=True, exist_ok=True)
        (folder / "results" / log.parent.name / log.name).symlink_to(log)
    return folder


def hostile_records(folder: Path) -> Path:
    """Records whose notes, names, sources, reasons and profiles hold what would harm a careless page."""
    text = f"# {SCRIPT}\n# {UNSEEN}\n# {{{{ 7 * 7 }}}}\ndef candidate(x):\n    return '{LONG}'\n"
    why = Difference("a.ncu-rep", SCRIPT, None, 2.0, f"because {SCRIPT}{UNSEEN}", 1, 1, None, None,
                     (Change(SCRIPT, 1.0, 2.0, 100.0),), ())
    for number, (note, who) in enumerate(((SCRIPT, LONG), (UNSEEN + "after", SCRIPT), ("</summary></details>{{ 7 * 7 }}", "x"))):
        found = compared("faster", 1.5 + number, number=number, source=text, gpu=f"H200 {SCRIPT}", driver=SCRIPT,
                         reason=f"{SCRIPT} {UNSEEN}", warnings=(SCRIPT, LONG), dtype=SCRIPT, rule=SCRIPT, shapes={SCRIPT: [1]},
                         roofline_inputs={"min_bytes": 1e6, "flops": None})
        store.write(folder, Record("rms", f"2026-11-30T14:00:{number:02d}.000000+00:00", found, note, who,
                                   baseline_files={"k.py": f"# {SCRIPT}\n# {UNSEEN}\ndef k(x):\n    return x\n"}, why=why))
    (folder / "results" / "rms" / "<b>broken.json").write_text("{", encoding="utf-8")
    return folder
