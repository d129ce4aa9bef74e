"""The driver as nvidia-ml-py sees it, through a stand-in library with one card, and where there is none."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import nvml_stub

from hotkernel.machine import driver
from hotkernel.schema.gpu import SLOWDOWN_MASK, Gpu, GpuList, GpuProcess, GpuState, throttle_words

LIST = "from hotkernel.machine import driver\nanswer = driver.list_gpus()"
UUID = "GPU-fcdd3975-a188-f16e-478e-b9068b3bcdc7"
HOLD = """
from hotkernel.machine import driver
with driver.open_driver() as open_driver:
    handle = open_driver.handle({card!r})
    answer = {what}
"""


def h200(**variables: str) -> dict:
    listed = nvml_stub.answer(LIST, **variables)
    return listed["gpus"][0]


def test_a_card_is_read_as_nvidia_smi_reads_it():
    card = h200()

    assert card["name"] == "NVIDIA H200"
    assert card["uuid"] == UUID
    assert card["driver"] == "580.159.04"
    assert card["memory_total_mib"] == 143_771
    assert card["power_limit_w"] == 700.0
    assert card["compute_capability"] == "9.0"
    assert card["sm_count"] == 132
    assert card["max_sm_clock_mhz"] == 1980
    assert card["ecc"] is True
    assert card["mig"] is False
    assert card["mig_devices"] == []
    assert card["state"]["temperature_c"] == 37
    assert card["state"]["sm_clock_mhz"] == 345
    assert card["state"]["power_w"] == 78.82
    assert card["state"]["throttle_reasons"] == ["gpu_idle"]
    assert card["state"]["processes"] == []
    assert card["warnings"] == []


CALLS = sorted(set(re.findall(r"(?:CALL\(|int )(nvml(?:Device|System)Get\w+)", nvml_stub.SOURCE.read_text("utf-8"))))


def test_any_call_may_be_refused_and_costs_its_own_field_alone():
    code = f"""
import os
from hotkernel.machine import driver
answer = {{}}
for name in {CALLS!r}:
    os.environ["STUB_REFUSE"] = name + "=3"
    answer[name] = driver.list_gpus()
"""
    whole = nvml_stub.answer(LIST, STUB_PIDS="12")
    answers = nvml_stub.answer(code, STUB_PIDS="12")
    may_lose = {
        "nvmlDeviceGetMemoryInfo": {"memory_total_mib", "state.memory_used_mib", "warnings"},
        "nvmlDeviceGetNumGpuCores": {"cuda_cores", "sm_count"},
        "nvmlDeviceGetCudaComputeCapability": {"compute_capability", "sm_count"},
        "nvmlDeviceGetMaxClockInfo": {"max_sm_clock_mhz", "max_memory_clock_mhz"},
        "nvmlDeviceGetClockInfo": {"state.sm_clock_mhz", "state.memory_clock_mhz"},
        "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w", "state.power_limit_w"},  # the requested one stands in
    }
    for name in set(CALLS) - {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetCount_v2"}:
        changed = differences(whole["gpus"][0], answers[name]["gpus"][0])
        allowed = may_lose.get(name)
        assert changed == allowed if allowed else len(changed) <= 1, (name, changed)


def differences(one: dict, other: dict, below: str = "") -> set[str]:
    found = set()
    for key in one:
        if isinstance(one[key], dict) and isinstance(other[key], dict):
            found |= differences(one[key], other[key], f"{key}.")
        elif one[key] != other[key]:
            found.add(below + key)
    return found


def test_a_refused_value_is_null_and_never_zero():
    refused = ("MemoryInfo", "PowerUsage", "ComputeRunningProcesses_v3")
    card = h200(STUB_REFUSE=",".join(f"nvmlDeviceGet{name}=3" for name in refused))

    assert card["memory_total_mib"] is None
    assert card["state"]["power_w"] is None
    assert card["state"]["processes"] is None


def test_a_card_without_memory_of_its_own_says_so():
    card = h200(STUB_NAME="NVIDIA GB10", STUB_REFUSE="nvmlDeviceGetMemoryInfo=3")

    assert card["name"] == "NVIDIA GB10"
    assert "shares the host's memory" in card["warnings"][0]


def test_an_old_driver_gives_its_throttle_reasons_under_the_older_name():
    old = {"STUB_REFUSE": "nvmlDeviceGetCurrentClocksEventReasons=13", "STUB_REASONS": "0x44"}

    assert h200(**old)["state"]["throttle_reasons"] == ["sw_power_cap", "hw_thermal_slowdown"]
    quick = HOLD.format(card=0, what="open_driver.clock_and_reasons(handle)")
    assert nvml_stub.answer(quick, **old) == [345, 0x44]


def test_clock_and_reasons_refused_are_null():
    quick = HOLD.format(card=UUID, what="open_driver.clock_and_reasons(handle)")
    refused = ",".join(f"nvmlDeviceGet{name}=3" for name in (
        "ClockInfo", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons"))

    assert nvml_stub.answer(quick) == [345, 1]
    assert nvml_stub.answer(quick, STUB_REFUSE=refused) == [None, None]


def test_an_unreadable_name_is_null_with_a_warning_and_the_card_still_shown():
    card = h200(STUB_NAME=os.fsdecode(b"\xf8NVIDIA"))

    assert card["name"] is None
    assert card["warnings"] == ["Name is unreadable"]
    assert card["memory_total_mib"] == 143_771


def test_control_and_bidi_characters_do_not_leave_in_a_name():
    assert h200(STUB_NAME="NVIDIA\x1b[31m \u202eH200")["name"] == "NVIDIA[31m H200"


def test_a_word_in_place_of_a_driver_version_is_no_version():
    assert h200(STUB_DRIVER='Deprecated, see "KMD version" instead')["driver"] is None


def test_a_card_that_cannot_be_reached_is_listed_with_the_reason():
    listed = nvml_stub.answer(LIST, STUB_REFUSE="nvmlDeviceGetHandleByIndex_v2=15")

    assert listed["reason"] is None
    assert listed["gpus"][0]["state"] is None
    assert "fallen off the bus" in listed["gpus"][0]["warnings"][0]


def test_a_card_that_must_be_reset_says_that_its_measurements_are_not_to_be_believed():
    card = h200(STUB_REFUSE="nvmlDeviceGetTemperature=16")

    assert card["state"]["temperature_c"] is None
    assert "must be reset" in card["warnings"][0]
    assert "believe no measurement" in card["warnings"][0]


def test_a_field_that_this_user_may_not_read_says_so():
    assert h200(STUB_REFUSE="nvmlDeviceGetPowerUsage=4")["warnings"] == ["PowerUsage: Insufficient Permissions"]


def test_a_card_in_mig_mode_lists_its_slices():
    card = h200(STUB_MIG="1")

    assert card["mig"] is True
    assert [(one["name"], one["sm_count"], one["memory_total_mib"]) for one in card["mig_devices"]] == [
        ("NVIDIA H200 MIG 1g.18gb", 16, 16_384)]


def test_a_process_whose_memory_is_withheld_is_listed_with_null():
    processes = h200(STUB_PIDS="12,13")["state"]["processes"]

    assert processes == [{"pid": 12, "name": "/usr/bin/python12", "memory_mib": 512},
                         {"pid": 13, "name": "/usr/bin/python13", "memory_mib": None}]


def test_a_handle_is_found_by_uuid_with_or_without_its_prefix():
    for card in (UUID, UUID.removeprefix("GPU-")):
        assert nvml_stub.answer(HOLD.format(card=card, what="open_driver.state(handle)"))["temperature_c"] == 37


@pytest.mark.parametrize(("refusal", "reason", "fix"), [
    ("nvmlInitWithFlags=9", "installed and not loaded", "modprobe"),
    ("nvmlInitWithFlags=18", "different versions", "restart"),
    ("nvmlInitWithFlags=4", "may not talk", "/dev/nvidia"),
    ("nvmlInitWithFlags=999", "does not answer", "dmesg"),
    ("nvmlDeviceGetCount_v2=999", "does not answer", "dmesg"),
])
def test_a_driver_that_does_not_answer_is_an_empty_list_with_reason_and_fix(refusal, reason, fix):
    listed = nvml_stub.answer(LIST, STUB_REFUSE=refusal)

    assert listed["gpus"] == []
    assert reason in listed["reason"]
    assert fix in listed["fix"]


def test_a_driver_that_knows_no_card_is_an_empty_list_with_its_version():
    listed = nvml_stub.answer(LIST, STUB_CARDS="0")

    assert listed["gpus"] == []
    assert "knows no card" in listed["reason"]
    assert listed["driver"] == "580.159.04"
    assert listed["cuda_version"] == "13.0"


def test_no_driver_is_an_empty_list_with_reason_and_fix():
    listed = driver.list_gpus()
    if listed.gpus or "not found" not in (listed.reason or ""):
        pytest.skip("this machine has a driver")

    assert listed == GpuList((), listed.reason, listed.fix)
    assert "install the driver" in (listed.fix or "")


def test_cuda_visible_devices_picks_by_number_and_by_the_beginning_of_a_uuid():
    cards = tuple(Gpu(index, uuid=f"GPU-{index}abc") for index in range(3))

    def kept(value: str) -> list[int]:
        return [card.index for card in driver.visible(cards, {"CUDA_VISIBLE_DEVICES": value})]

    assert [card.index for card in driver.visible(cards, {})] == [0, 1, 2]
    assert kept("${CUDA_VISIBLE_DEVICES}") == [0, 1, 2]
    assert kept("2,0") == [2, 0]
    assert kept("GPU-1a") == [1]
    assert kept("1,-1,2") == [1]
    assert kept("") == [] == kept("GPU-")


def process(pid: int) -> GpuProcess:
    return GpuProcess(pid, None, None)


def test_others_are_named_where_numbers_agree():
    seen = driver.foreign((process(7), process(8)), own_pids={7})

    assert (seen.count, seen.processes, seen.warning) == (1, (process(8),), None)


def test_others_are_counted_where_a_container_numbers_processes_otherwise():
    seen = driver.foreign((process(70_007), process(70_008)), own_pids={7})

    assert (seen.count, seen.processes) == (1, None)
    assert "counted, not named" in (seen.warning or "")


def test_nobody_else_is_nobody_else_whatever_the_numbers():
    seen = driver.foreign((process(70_007),), own_pids={7})

    assert (seen.count, seen.processes) == (0, ())


def test_an_unlisted_card_or_our_own_process_missing_means_unknown_and_not_nobody():
    assert driver.foreign(None, own_pids={7}).count is None
    assert driver.foreign((), own_pids={7}).count is None
    assert driver.foreign((), own_pids=set()).count == 0


def test_reasons_are_words_and_a_bit_without_a_word_is_its_number():
    assert throttle_words(0) == ()
    assert throttle_words(None) is None
    assert throttle_words(0x84 | 1 << 20) == ("sw_power_cap", "hw_power_brake_slowdown", "0x100000")


@pytest.mark.parametrize(("mask", "slowed"), [(None, None), (0x1, False), (0x4, False), (0x20, True), (0x48, True)])
def test_only_a_slowdown_voids_a_time_and_the_power_cap_does_not(mask, slowed):
    state = GpuState(None, None, None, None, throttle_words(mask), mask, None, None)

    assert state.is_slowed is slowed
    assert not SLOWDOWN_MASK & 0x4
