"""Brings what a speedrun recorded into this checkout: results/, the board, the table and the plot; measures nothing.

    python benchmarks/speedrun_publish.py DIR [--into CHECKOUT]

DIR is what benchmarks/speedrun.py wrote. Each log is copied with the paths of the machine that it was made on turned into
those of this checkout, so that `hotkernel verify results/TARGET/LOG.candidate.py speedrun/TARGET/TARGET_baseline.py` and
`record ID --confirm 1` go on with it here. A log that is here already stays. CHECKOUT then holds results/ and LEADERBOARD.md,
speedrun/SPEEDRUN.md (reached and spent, a row a target), speedrun/TARGET/journal.json (what was tried, in order), and
docs/images/roofline.svg. `make docs` brings README up to it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import speedrun_table

from hotkernel.judge import gpu_specs
from hotkernel.judge.roofline import measured_peaks, roofline
from hotkernel.plots import roofline as plots
from hotkernel.plots.canvas import Sheet
from hotkernel.records import calibrations, figures, leaderboard, store
from hotkernel.records.files import write_new, write_whole
from hotkernel.schema.plain import from_plain
from hotkernel.schema.record import Logged
from hotkernel.schema.roofline import Calibration, PlottedKernel
from speedrun import journals

LEFT = "profiles"  # ncu's reports: large, and of one machine
PLOT = Sheet(9.6, 6.0, 11.0)


def copy_results(folder: Path, into: Path, rows: dict[str, dict[str, Any]]) -> int:
    """Every file of every target; how many are new."""
    copied, were = 0, roots(folder)
    for file in sorted(path for path in (folder / "results").rglob("*") if path.is_file()):
        part = file.relative_to(folder)
        if LEFT not in part.parts:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
            moved = here(text, rows, were) if file.suffix == ".json" else text
            copied += write_new(into / part, moved.encode("utf-8", "surrogateescape"))
    return copied


def roots(folder: Path) -> list[str]:
    """What DIR was called where its logs were made."""
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in (folder / "results").rglob("*.json"))
    return sorted({root for text in texts for root in re.findall(r'"([^"\n]+)/targets/\w+/\w+_baseline\.py"', text)})


def here(text: str, rows: dict[str, dict[str, Any]], were: list[str]) -> str:
    """A log's text with the files of the run as those of a checkout."""
    names = {(name, each["sha256"][:12]): each["attempt"] for name, row in rows.items() for each in row["attempts"]}

    def attempt(found: re.Match[str]) -> str:
        stem = names.get((found[1], found[2]))
        return f'"speedrun/{found[1]}/attempts/{stem}.py"' if stem else found[0]

    text = re.sub(r'"[^"\n]*/attempts/(\w+)/([0-9a-f]{12})/\w+_candidate\.py"', attempt, text)
    text = re.sub(r'"[^"\n]*/targets/(\w+)/(\w+\.py)"', r'"speedrun/\1/\2"', text)
    for root in were:
        text = text.replace(f"{root}/", "")
    return text


def kept(rows: dict[str, dict[str, Any]], records: Iterable[Logged]) -> list[PlottedKernel]:
    """Of each target what was kept or came nearest."""
    logged, found = {each.record.comparison.id: each.record.comparison for each in records}, []
    for name, row in rows.items():
        best = speedrun_table.final(row)
        comparison = logged.get(best["id"]) if best else None
        moved, flops = (comparison.roofline_inputs.get(what) for what in ("min_bytes", "flops")) if comparison else (None, None)
        if comparison and comparison.candidate and moved and flops:
            said = figures.share(comparison.ceiling_share_pct, comparison.ceiling_bound)
            found.append(PlottedKernel(f"{name}: {said}", flops, moved, comparison.candidate.mean_ms))
    return found


def picture(kernels: list[PlottedKernel], state: Path) -> bytes | None:
    """All kernels under the roofs of the card that was calibrated first; none without one."""
    for file in sorted((state / calibrations.FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime):
        calibration = from_plain(Calibration, json.loads(file.read_text(encoding="utf-8")))
        spec = gpu_specs.of_driver_name(calibration.gpu, None)
        if spec and kernels:
            roofs = roofline(spec, None, None, "bf16", measured_peaks(calibration, None, None, "bf16"))
            return plots.roofline(roofs, kernels, PLOT, "svg", title=f"What was kept or came nearest, on an {calibration.gpu}",
                                  key=True)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--into", type=Path, default=ROOT)
    options = parser.parse_args()
    rows = journals(options.folder / "journal")
    print(f"{copy_results(options.folder, options.into, rows)} new files")
    board, shelf = leaderboard.rebuild(options.into)
    write_whole(options.into / "speedrun" / "SPEEDRUN.md", "\n".join(speedrun_table.page(rows, shelf.records, "../")) + "\n")
    for name in rows:
        text = (options.folder / "journal" / f"{name}.json").read_text(encoding="utf-8")
        write_whole(options.into / "speedrun" / name / "journal.json", here(text, rows, roots(options.folder)))
    drawn = picture(kept(rows, shelf.records), options.folder / "state")
    if drawn:
        write_whole(options.into / "docs" / "images" / "roofline.svg", drawn)
    skipped = store.read(options.into).skipped
    print(f"{board}: {len(shelf.records)} records, {len(skipped)} files that are none{'' if drawn else '; no plot'}")
    for each in skipped:
        print(f"  {each.path}: {each.reason}")
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
