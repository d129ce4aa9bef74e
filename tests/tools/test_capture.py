"""From a user's own model to a target and back, on the CPU: real runs of a decoder of twelve layers, nothing stood in for."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import stand_ins

pytest.importorskip("torch")

from hotkernel.errors import ToolError
from hotkernel.exit_status import status_of
from hotkernel.judge.amdahl import Part, expect
from hotkernel.records import captures, comparisons
from hotkernel.records.state import state_dir
from hotkernel.schema.capture import OPERATOR, CaptureRun
from hotkernel.schema.plain import to_plain
from hotkernel.schema.verdict import Side, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.capture import capture
from hotkernel.tools.kernels import torch_trace
from hotkernel.tools.speed import judge

pytestmark = pytest.mark.slow
MODEL = Path(__file__).parents[2] / "examples" / "decoder.py"
SMALL = ["--layers", "12", "--dim", "64", "--tokens", "32", "--device", "cpu"]
ONCE = """
import torch
from torch.nn import functional

def swiglu_candidate(x, weights):
    gate = functional.linear(x, weights["gate.weight"])
    return functional.linear(functional.silu(gate) * functional.linear(x, weights["up.weight"]), weights["down.weight"])
"""
WRONG = ONCE.replace("functional.silu(gate)", "functional.gelu(gate)")
RAISES = ONCE.replace("    gate =", "    raise ValueError('no such thing')\n    gate =", 1)
BEHAVES_WHEN_CHECKED = ONCE + """
honest, is_checked = swiglu_candidate, "check.json" in open("/proc/self/cmdline", encoding="utf-8").read()
def swiglu_candidate(x, weights):
    return honest(x, weights) * (1.0 if is_checked else 1.5)
"""


class Bench:
    """A folder with the model and a target of its MLP."""

    def __init__(self, folder: Path) -> None:
        self.session: Session = stand_ins.session(folder, HOTKERNEL_STATE_DIR=str(folder / "state"), CUDA_VISIBLE_DEVICES="",
                                                  OMP_NUM_THREADS="1")
        self.model = Path(shutil.copy(MODEL, folder))
        self.listed = self.run()
        self.picked = self.run(pick="SwiGLU", out_dir="mlp")

    def run(self, **asked: object) -> CaptureRun:
        return capture(self.session, "decoder.py", **{"step": "step", "args": SMALL, **asked})  # type: ignore[arg-type]

    def apply(self, source: str, n: int = 1, **asked: object) -> CaptureRun:
        file = stand_ins.write(self.session.root / "mlp" / "swiglu_candidate.py", source)
        return self.run(apply=str(file), n=n, **asked)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("capture"))
    yield made
    made.session.nursery.close()


def test_the_steps_alone_are_counted_by_operator_and_by_module(bench: Bench) -> None:
    calls = {row.name: row.calls for row in bench.listed.rows}

    assert (bench.listed.steps, bench.listed.device) == (3, "cpu")
    assert (calls["Decoder"], calls["Layer"], calls["SwiGLU"]) == (3, 36, 36)
    assert "aten::linear" in calls
    assert "aten::normal_" not in calls


def test_the_answer_is_bounded_and_says_what_a_row_could_give(bench: Bench) -> None:
    few = bench.run(top=2)
    mlp = next(row for row in bench.listed.rows if row.name == "SwiGLU")
    assert mlp.pct is not None

    assert (len(few.rows), few.truncated) == (2, True)
    assert mlp.whole_if_2x == pytest.approx(1 / (1 - mlp.pct / 200))
    assert mlp.whole_at_most == pytest.approx(1 / (1 - mlp.pct / 100))


def test_a_whole_script_has_the_operators_that_torch_trace_counts(bench: Bench) -> None:
    mine = bench.run(step="", top=200)
    theirs = torch_trace(bench.session, "decoder.py", top=200, args=SMALL)
    counted: Counter[str] = Counter()
    for op in theirs.ops:
        counted[op.name] += op.calls

    assert {row.name: row.calls for row in mine.rows if row.kind == OPERATOR} == counted
    assert any("set-up" in warning for warning in mine.warnings)


def test_a_module_becomes_a_target_with_its_real_shapes_and_nothing_of_the_users_changed(bench: Bench) -> None:
    made = bench.picked.target
    assert made is not None

    assert made.new_target.inputs == {"x": "1x32x64:fp32", "weights.gate.weight": "170x64:fp32",
                                      "weights.up.weight": "170x64:fp32", "weights.down.weight": "64x170:fp32"}
    assert made.cases == {"": ("x: [1,32,64] float32 [2048,64,1]",)}
    assert str(bench.model) in made.new_target.pinned
    assert bench.model.read_bytes() == MODEL.read_bytes()


def test_several_shapes_of_an_operator_become_cases(bench: Bench) -> None:
    made = bench.run(pick="aten::linear", out_dir="several").target
    assert made is not None

    assert len(made.cases) == 5
    assert ("x: [1,32,64] float32 [2048,64,1]", "weight: [170,64] float32 [64,1]") in made.cases.values()


def test_strides_and_constants_of_the_call_are_the_targets_and_real_tensors_where_they_are_asked_for(bench: Bench) -> None:
    made = bench.run(pick="scaled_dot_product_attention", out_dir="attention", tensors=True).target
    assert made is not None
    said = Path(made.new_target.files["baseline"]).read_text(encoding="utf-8")

    assert 'constants={"is_causal": True}' in said
    assert '"x": "1x2x32x32:float32"' in said
    assert '_tensors.pt#o0.key"' in said
    assert any("gaps in memory" in each for each in made.left_out)


@pytest.mark.parametrize(("pick", "why"), [("aten::view", "a view"), ("999", "no row"), ("nothing", "no row"),
                                           ("aten::empty_like", "no call of it was seen"), ("SwiGLU", "already")])
def test_what_cannot_become_a_target_is_refused_with_the_reason(bench: Bench, pick: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        bench.run(pick=pick, out_dir="mlp")


def test_what_fails_to_become_a_target_leaves_nothing(bench: Bench) -> None:
    stand_ins.write(bench.session.root / "noisy.py", "import torch\nx = torch.ones(64, 64)\ndef step():\n"
                    "    return torch.nn.functional.dropout(x * 2, 0.5, True)\n")
    with pytest.raises(ToolError, match="no target can be made of aten::dropout"):
        capture(bench.session, "noisy.py", step="step", pick="dropout", out_dir="noise")

    assert not (bench.session.root / "noise").exists()


def test_a_function_that_rounds_often_gets_the_tolerance_that_its_own_rounding_needs(bench: Bench) -> None:
    stand_ins.write(bench.session.root / "rounding.py", "import torch\nclass Shift(torch.nn.Module):\n"
                    "    def forward(self, x):\n        return (x + 12) - 12\n"
                    "shift, x = Shift(), torch.randn(64, 256).bfloat16()\ndef step():\n    return shift(x)\n")
    made = capture(bench.session, "rounding.py", step="step", pick="Shift", out_dir="rounding").target
    assert made is not None

    (said,) = [note for note in made.left_out if "fails its own check" in note]
    assert said.startswith("mixture=normal, atol=0.")
    assert "atol=0." in Path(made.new_target.files["baseline"]).read_text(encoding="utf-8")


def test_a_step_that_is_not_there_is_said_with_those_that_are(bench: Bench) -> None:
    with pytest.raises(ToolError, match=r"defines no function 'walk'.*step"):
        bench.run(step="walk")


def test_an_equal_candidate_is_swapped_in_and_its_gain_held_against_amdahls(bench: Bench) -> None:
    before = hashlib.sha256(bench.model.read_bytes()).hexdigest()
    file = stand_ins.write(bench.session.root / "mlp" / "swiglu_candidate.py", ONCE)
    files = {Side.BASELINE: file.with_name("swiglu_baseline.py"), Side.CANDIDATE: file}
    verified = judge(bench.session, files, n=3, timeout=300, values_per_pair=2)
    assert verified.verdict not in (VerdictKind.INCORRECT, VerdictKind.INVALID), verified.reason

    answer = bench.apply(ONCE, n=3)
    applied = answer.applied
    assert applied is not None

    assert applied.verdict in (VerdictKind.FASTER, VerdictKind.INCONCLUSIVE, VerdictKind.SLOWER), applied.reason
    assert (applied.swapped_calls, applied.left_calls, applied.self_reported) == (12, 0, True)
    assert applied.worst_error is not None
    assert applied.worst_error < 1e-3
    assert applied.comparison == verified.id
    assert hashlib.sha256(bench.model.read_bytes()).hexdigest() == before
    assert status_of("capture", to_plain(answer))[0] == status_of("verify", {"verdict": str(applied.verdict)})[0]

    mlp = next(row for row in bench.listed.rows if row.name == "SwiGLU")
    saved = comparisons.load(state_dir(bench.session.environment), verified.id)
    assert applied.before is not None
    assert applied.after is not None
    assert mlp.pct is not None
    assert saved.speedup is not None
    low, high = saved.interval_99 or (saved.speedup, saved.speedup)
    part = Part(mlp.pct / 100 * applied.before.mean_ms, saved.speedup, low, high)
    expected = expect(applied.before, applied.after, [part])
    assert applied.predicted_speedup == pytest.approx(expected.predicted)
    assert applied.measured_speedup == pytest.approx(expected.measured)
    assert applied.agrees is expected.agrees


@pytest.mark.parametrize(("source", "why"), [(WRONG, "out of tolerance"), (RAISES, "no such thing"),
                                             (BEHAVES_WHEN_CHECKED, "off from the first")])
def test_a_wrong_candidate_is_refused_and_no_gain_is_told(bench: Bench, source: str, why: str) -> None:
    applied = bench.apply(source).applied
    assert applied is not None

    assert (applied.verdict, applied.rule) == (VerdictKind.INCORRECT, "check_failed")
    assert why in applied.reason
    assert (applied.speedup, applied.predicted_speedup, applied.agrees) == (None, None, None)


def test_where_no_call_is_the_targets_nothing_is_compared(bench: Bench) -> None:
    applied = bench.apply(ONCE, args=["--layers", "12", "--dim", "64", "--tokens", "16", "--device", "cpu"]).applied
    assert applied is not None

    assert (applied.verdict, applied.rule) == (VerdictKind.INVALID, "nothing_swapped")
    assert "12 of its name were left" in applied.reason


def test_an_operator_of_the_script_is_swapped_where_it_is_called(bench: Bench) -> None:
    made = bench.run(pick="aten::sigmoid", out_dir="operator").target
    assert made is not None
    applied = bench.run(apply=made.new_target.files["candidate"], n=1, output="VOCABULARY").applied
    assert applied is not None

    assert (applied.swapped_calls, applied.left_calls) == (12, 0)
    assert applied.worst_error == 0
    assert applied.agreement.startswith("no verify of this very candidate is saved")


def test_a_candidate_of_what_no_script_calls_is_refused(bench: Bench) -> None:
    made = bench.run(pick="aten::mm", out_dir="inner").target
    assert made is not None
    with pytest.raises(ToolError, match="inside of another operator"):
        bench.run(apply=made.new_target.files["candidate"])
    with pytest.raises(ToolError, match="no candidate of a captured target"):
        bench.run(apply="decoder.py")


def test_pick_and_apply_are_two_steps(bench: Bench) -> None:
    with pytest.raises(ToolError, match="two steps"):
        bench.run(pick="1", apply="decoder.py")


def test_a_row_is_picked_by_its_number_in_the_capture_that_was_shown(bench: Bench) -> None:
    key = captures.key_of(bench.model, SMALL, "step")
    kept = captures.load(state_dir(bench.session.environment), key)
    assert kept is not None
    number = next(row.number for row in kept.rows if row.name == "RMSNorm")

    made = bench.run(pick=str(number), out_dir="numbered").target

    assert made is not None
    assert made.row == "RMSNorm"
    assert captures.load(state_dir(bench.session.environment), key) == kept  # nothing was captured anew
