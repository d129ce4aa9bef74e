"""On a machine with a card: NVML's answers are those of nvidia-smi, and what the tools say of the card fits it."""

from __future__ import annotations

import csv
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hotkernel.machine import driver
from hotkernel.machine.driver import Driver
from hotkernel.schema.gpu import Gpu
from hotkernel.session import Session
from hotkernel.tools import gpu as tools

pytestmark = pytest.mark.gpu

FIELDS = ("index", "name", "uuid", "pci.bus_id", "driver_version", "memory.total", "enforced.power.limit",
          "power.default_limit", "compute_cap", "clocks.max.sm", "clocks.max.memory", "ecc.mode.current",
          "mig.mode.current", "temperature.gpu", "power.draw")
HOLDS_A_CONTEXT = "import sys, torch; torch.ones(1, device='cuda'); print('ready', flush=True); sys.stdin.read()"


@pytest.fixture(scope="module")
def smi() -> list[dict[str, str]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("no nvidia-smi")
    command = [program, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return [dict(zip(FIELDS, map(str.strip, row), strict=True)) for row in csv.reader(told.splitlines()) if row]


@pytest.fixture(scope="module")
def opened() -> Iterator[Driver]:
    reason = driver.list_gpus().reason
    if reason is not None:
        pytest.skip(reason)
    with driver.open_driver() as opened:
        yield opened


@pytest.fixture(scope="module")
def cards(opened: Driver) -> tuple[Gpu, ...]:
    return opened.gpus()


def number(text: str) -> float | None:
    """nvidia-smi's number; None for `[N/A]` and its like."""
    try:
        return float(text)
    except ValueError:
        return None


def test_every_card_reads_as_nvidia_smi_reads_it(smi, cards):
    assert len(cards) == len(smi)
    for card, told in zip(cards, smi, strict=True):
        assert card.index == int(told["index"])
        assert card.name == told["name"]
        assert card.uuid == told["uuid"]
        assert (card.pci_bus_id or "").lower() == told["pci.bus_id"].lower()
        assert card.driver == told["driver_version"]
        assert card.memory_total_mib == number(told["memory.total"])
        assert card.power_limit_w == number(told["enforced.power.limit"])
        assert card.power_limit_default_w == number(told["power.default_limit"])
        assert card.compute_capability == told["compute_cap"]
        assert card.max_sm_clock_mhz == number(told["clocks.max.sm"])
        assert card.max_memory_clock_mhz == number(told["clocks.max.memory"])
        assert card.ecc == {"Enabled": True, "Disabled": False}.get(told["ecc.mode.current"])
        assert card.mig == {"Enabled": True, "Disabled": False}.get(told["mig.mode.current"])


def test_the_state_is_near_what_nvidia_smi_said_a_moment_ago(smi, opened):
    for told in smi:
        state = opened.state(opened.handle(int(told["index"])))
        assert state.temperature_c == pytest.approx(number(told["temperature.gpu"]), abs=15)
        assert state.power_w == pytest.approx(number(told["power.draw"]), abs=300)
        assert state.sm_clock_mhz
        assert state.throttle_mask is not None
        assert state.throttle_reasons is not None


def test_multiprocessors_and_bus_width_are_as_torch_reports_them(cards):
    torch: Any = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no card")
    properties = torch.cuda.get_device_properties(0)
    card = next((card for card in cards if str(properties.uuid) in (card.uuid or "")), cards[0])

    assert card.sm_count == properties.multi_processor_count
    assert card.compute_capability == f"{properties.major}.{properties.minor}"
    spec = tools.spec_of(card)
    if spec.l2_bytes is not None and not spec.worked_out:
        assert spec.l2_bytes.value == pytest.approx(properties.L2_cache_size, rel=0.25)
    if spec.shared_per_block_bytes is not None:
        assert spec.shared_per_block_bytes.value == properties.shared_memory_per_block_optin


def test_an_h200_is_an_h200(cards):
    card = next((card for card in cards if card.name == "NVIDIA H200"), None)
    if card is None:
        pytest.skip("no H200 here")

    assert card.memory_total_mib == 143_771
    assert card.compute_capability == "9.0"
    assert card.max_sm_clock_mhz == 1980
    assert card.sm_count == 132
    assert tools.spec_of(card).key == "h200sxm"


def test_clock_and_reasons_are_cheap_enough_for_hundreds_of_calls_a_second(opened):
    handle = opened.handle(0)
    opened.clock_and_reasons(handle)
    started = time.perf_counter()
    answers = [opened.clock_and_reasons(handle) for _ in range(100)]
    each_ms = (time.perf_counter() - started) * 10

    assert all(clock is not None and mask is not None for clock, mask in answers)
    assert each_ms < 3.0


def test_a_process_with_a_context_is_seen_or_the_blindness_is_said(opened):
    child = subprocess.Popen([sys.executable, "-c", HOLDS_A_CONTEXT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"})
    try:
        assert child.stdout is not None
        told, _, _ = select.select([child.stdout], [], [], 120)
        if not told or child.stdout.readline().strip() != b"ready":
            pytest.skip("this Python has no torch that sees the card")
        processes = opened.processes(opened.handle(0))
        seen = driver.foreign(processes, own_pids={child.pid})
    finally:
        child.kill()
        child.wait(30)

    if driver.pids_are_the_drivers():
        assert processes is not None
        assert child.pid in {process.pid for process in processes}
        assert seen.warning is None
    else:
        assert seen.warning is not None or child.pid in {process.pid for process in processes or ()}


def test_gpu_info_and_roofline_speak_of_the_card_that_is_here(cards, tmp_path):
    session = Session(root=tmp_path, environment={**os.environ, "HOTKERNEL_STATE_DIR": str(tmp_path)})
    info = tools.gpu_info(session)
    result = tools.roofline(session, flops=2.7e8, bytes=1.34e8)

    assert [report.uuid for report in info.gpus] == [card.uuid for card in cards]
    assert result.attainable_ms
    assert result.peak_tflops
    assert any("calibrate" in note for note in result.notes)
