"""Holds what the tools said of the same kernels against each other, on plain answers; runs and reads nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

# Between programs that watch the kernel run where it runs. A launch's gap of about 1 us is in verify's time and in no
# profiler's (docs/timing.md), so that a short kernel is held to microseconds.
NEAR_SHARE, NEAR_US = 0.10, 1.3
# ncu runs a launch alone with cold caches and free clocks: 31.7 to 32.9 us where CUPTI sees 34.9 (docs/timing.md).
NCU_SHARE = 0.15
OCCUPANCY_PCT = 0.1
ANSWER_CHARACTERS = 24_000  # of JSON, some 8,000 tokens: what a tool may say unless it is asked for more

Answers = Mapping[str, Any]  # a step's name, and what its tool answered; a step that did not run is not in there


@dataclass(frozen=True)
class Check:
    """One thing that must hold; null where a step that it needs did not run."""

    subject: str
    claim: str
    holds: bool | None
    seen: str

    @property
    def word(self) -> str:
        return {True: "holds", False: "FAILED", None: "not seen"}[self.holds]


def of_example(name: str, said: Answers) -> list[Check]:
    """The candidate of one example: trace, nsys, ncu and verify on its kernel, the SASS against ncu's counters."""
    return [*_top_kernel(name, said), *_times(name, said), *_code(name, said), *_explained(name, said)]


def of_planted(said: Answers) -> list[Check]:
    """A kernel made to spill and a product of matrices, in one report of ncu and each from the cache."""
    found = []
    for kernel, rule in (("spilling_kernel", "spills"), ("dot_kernel", "tensor-cores")):
        code = said.get(f"disasm_{kernel}")
        rules = [finding["rule"] for finding in code["findings"]] if code else []
        found.append(Check(kernel, f"disasm finds {rule}", rule in rules if code else None, ", ".join(rules)))
        row = _row(said.get("ncu"), kernel)
        if code and row:
            found += _registers_and_spills(kernel, code["kernels"][0], row, said.get("limits", {}).get(kernel))
    row = _row(said.get("ncu"), "spilling_kernel")
    requests = row["metrics"]["spill_requests"] if row else None
    found.append(Check("spilling_kernel", "ncu counts its spills", None if requests is None else requests > 0, f"{requests}"))
    tensor = said.get("disasm_dot_kernel")
    opcodes = [each["opcode"] for each in tensor["kernels"][0]["tensor_core"]] if tensor else []
    found.append(Check("dot_kernel", "its tensor-core instructions are shown",
                       bool(opcodes) and all("MMA" in each for each in opcodes) if tensor else None, ", ".join(opcodes)))
    return found


def of_answers(said: Answers) -> list[Check]:
    """Every answer keeps to its bound."""
    sizes = {step: answer["characters"] for step, answer in said.items()}
    worst = max(sizes, key=lambda step: sizes[step], default=None)
    return [Check("answers", f"each is below {ANSWER_CHARACTERS:,} characters of JSON",
                  max(sizes.values()) < ANSWER_CHARACTERS if sizes else None,
                  f"the longest: {worst}, {sizes[worst]:,}" if worst else "")]


def times_us(said: Answers) -> dict[str, float]:
    """The top kernel's time for one call by each program, as far as it is known."""
    found: dict[str, float | None] = {}
    for tool, rows in _rows(said).items():
        top = rows[0]["short_name"]
        calls = [(row["avg_us"], row["calls"]) for row in rows if row["short_name"] == top and row["avg_us"] is not None]
        found[tool] = sum(us * n for us, n in calls) / sum(n for _, n in calls) if calls else None
    if (verdict := said.get("verify")) and verdict.get("candidate"):
        found["verify"] = verdict["candidate"]["median_ms"] * 1e3
    return {tool: us for tool, us in found.items() if us is not None}


def as_rows(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """The checks as plain data, with each one's word."""
    return [{**asdict(check), "word": check.word} for check in checks]


def as_markdown(found: dict[str, Any]) -> list[str]:
    """The page: the machine, times side by side, every check, and what did not run."""
    machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items() if value is not None)
    tools = ("verify", "torch_trace", "nsys", "ncu")
    lines = ["# Evidence", "", f"{found['at']}; {machine}.", "Made by `benchmarks/evidence.py`; whole answers are in `raw/`.", "",
             "Microseconds of one call of the candidate's kernel:", "", "| example | " + " | ".join(tools) + " |",
             "|---|" + "---|" * len(tools)]
    for name, times in found["times_us"].items():
        lines.append(f"| {name} | " + " | ".join(f"{times[tool]:.2f}" if tool in times else "" for tool in tools) + " |")
    lines += ["", "| subject | claim | | seen |", "|---|---|---|---|"]
    lines += [f"| {row['subject']} | {row['claim']} | {row['word']} | {_cell(row['seen'])} |" for row in found["checks"]]
    lines += ["", "| step | seconds | characters of JSON | |", "|---|---|---|---|"]
    lines += [f"| {name} | {kept['seconds']} | {kept['characters']} | {_cell(kept.get('error', ''))} |"
              for name, kept in found["steps"].items()]
    return [*lines, "", *(f"Left out: {each}." for each in found["left_out"])]


def _rows(said: Answers) -> dict[str, list[dict[str, Any]]]:
    found = {"torch_trace": said.get("trace", {}).get("kernels"), "nsys": said.get("nsys", {}).get("top"),
             "ncu": (_ncu(said) or {}).get("top")}
    return {tool: rows for tool, rows in found.items() if rows}


def _ncu(said: Answers) -> Any:
    """The basic profile, else the full one, which holds all of it."""
    return said.get("ncu") or said.get("ncu_full")


def _row(report: Any, kernel: str) -> dict[str, Any] | None:
    return next((row for row in report["top"] if row["short_name"] == kernel), None) if report else None


def _top_kernel(name: str, said: Answers) -> Iterator[Check]:
    tops = {tool: rows[0]["short_name"] for tool, rows in _rows(said).items()}
    for tool in ("nsys", "ncu"):
        both = "torch_trace" in tops and tool in tops
        yield Check(name, f"{tool}'s top kernel is torch_trace's", tops["torch_trace"] == tops[tool] if both else None,
                    f"{tops.get('torch_trace')} and {tops.get(tool)}")


def _times(name: str, said: Answers) -> Iterator[Check]:
    times = times_us(said)
    trace = times.get("torch_trace")
    alone = "trace" in said and said["trace"]["n_kernels"] == 1
    for tool, share in (("nsys", NEAR_SHARE), ("verify", NEAR_SHARE), ("ncu", NCU_SHARE)):
        claim = f"{tool}'s time of it is within {share:.0%} of torch_trace's, or {NEAR_US} us"
        other = times.get(tool)
        if trace is None or other is None:
            yield Check(name, claim, None, "")
        elif tool == "verify" and not alone:
            yield Check(name, claim, None, f"a call launches {said['trace']['n_kernels']} kernels; verify times all of them")
        else:
            seen = f"{other:.2f} against {trace:.2f} us ({100 * (other / trace - 1):+.1f} %)"
            yield Check(name, claim, abs(other - trace) <= max(share * trace, NEAR_US), seen)


def _code(name: str, said: Answers) -> Iterator[Check]:
    code = said.get("disasm")
    row = _row(_ncu(said), code["kernels"][0]["name"]) if code else None
    if not code or not row:
        yield Check(name, "disasm and ncu saw the same kernel", None if not code or not _ncu(said) else False, "")
        return
    yield from _registers_and_spills(name, code["kernels"][0], row, said.get("limits", {}).get(row["short_name"]))


def _registers_and_spills(
    name: str, kernel: dict[str, Any], row: dict[str, Any], blocks: float | None
) -> Iterator[Check]:
    """`blocks`: how many blocks a multiprocessor holds as far as registers go, by ncu's own metric."""
    ours, ncus = kernel["registers"], row["registers_per_thread"]
    yield Check(name, "registers are the same in the SASS and in ncu", ours == ncus, f"{ours} and {ncus}")
    spilled = (kernel["spill_stores"] or 0) + (kernel["spill_loads"] or 0)
    requests = row["metrics"]["spill_requests"]
    yield Check(name, "spills are in the SASS exactly where ncu counts them",
                None if requests is None else (spilled > 0) == (requests > 0),
                f"{spilled} instructions and {requests} requests")
    if blocks is None or kernel["register_limited_warps"] is None:
        yield Check(name, "warps that the registers allow are ncu's", None, "")
        return
    warps = math.ceil(math.prod(row["block"]) / 32)
    allowed = kernel["register_limited_warps"] // warps * warps
    yield Check(name, "warps that the registers allow are ncu's", allowed == min(blocks * warps, kernel["max_warps"]),
                f"{allowed} and {min(blocks * warps, kernel['max_warps']):.0f}")
    theoretical = row["metrics"]["theoretical_occupancy_pct"]
    limit = 100 * allowed / kernel["max_warps"]
    yield Check(name, "ncu's occupancy limit is not above what the registers allow",
                None if theoretical is None else theoretical <= limit + OCCUPANCY_PCT, f"{theoretical} % and {limit:.1f} %")


def _explained(name: str, said: Answers) -> Iterator[Check]:
    explained = said.get("explain")
    claim = "explain names the hottest source lines with what their warps wait for"
    if not explained:
        yield Check(name, claim, None, "")
        return
    first = explained["lines"][0] if explained["lines"] else None
    told = bool(first and first["source"] and first["stalls"])
    yield Check(name, claim, told, f"line {first['line']}: {first['stalls'][0]['reason']}" if first and told else "")
    ncu = times_us(said).get("ncu")
    full = explained["figures"]["duration_us"]
    if "ncu" in said and ncu and full:
        yield Check(name, f"the full report's duration is within {NCU_SHARE:.0%} of the basic one's",
                    abs(full / ncu - 1) <= NCU_SHARE, f"{full:.2f} and {ncu:.2f} us")
    changed = (said.get("difference") or explained)["difference"]
    yield Check(name, "the difference from the baseline's report is told in a sentence",
                bool(changed["why"]) if changed else None, changed["why"] if changed else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
