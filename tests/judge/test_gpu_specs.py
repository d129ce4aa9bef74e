"""The table of cards: every number has its document, the numbers fit each other, and names find the right card only."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path

import pytest

from hotkernel.judge import gpu_specs, worked_out
from hotkernel.schema.gpu import Gpu, MigDevice
from hotkernel.schema.roofline import DTYPES, GpuSpec

ROOT = Path(__file__).parents[2]
RAW = tomllib.loads((ROOT / "src/hotkernel/judge/gpu_specs.toml").read_text("utf-8"))
TABLE = gpu_specs.table()
SHARED_FIXTURES = ROOT.parent / "shared" / "fixtures" / "public" / "nvidia_smi"
NO_FIGURES = {"name", "compute_capability", "driver_names", "aliases", "boards", "shares_host_memory", "techpowerup",
              "notes", "tflops"}


def rate(spec: GpuSpec, dtype: str) -> float | None:
    return spec.tflops[dtype].value if dtype in spec.tflops else None


def figures() -> list[tuple[str, list]]:
    found = []
    for key, card in RAW["cards"].items():
        found += [(f"{key}.{name}", raw) for name, raw in card.items() if name not in NO_FIGURES]
        found += [(f"{key}.tflops.{dtype}", raw) for dtype, raw in card["tflops"].items()]
    return found


def test_every_number_has_a_document_with_a_title_an_address_and_the_day_it_was_read():
    assert len(figures()) > 300
    for place, raw in figures():
        value, document, *note = raw
        source = RAW["documents"][document]
        assert value > 0, place
        assert source["title"], document
        assert source["url"].startswith("http"), document
        assert isinstance(source["read"], datetime.date), document
        assert all(isinstance(word, str) and word for word in note), place
        assert document != "techpowerup" or RAW["cards"][place.split(".")[0]]["techpowerup"], place


def test_every_document_is_used():
    assert set(RAW["documents"]) == {raw[1] for _, raw in figures()}


def test_a_source_names_the_page_of_the_card_itself():
    power = TABLE["rtx5080"].power_w

    assert power is not None
    assert "https://www.techpowerup.com/gpu-specs/geforce-rtx-5080.c4217" in power.source


@pytest.mark.parametrize("words", [
    "t4", "v100sxm", "a10", "a100pcie40", "a100pcie80", "a100sxm40", "a100sxm80", "a40", "a6000", "l4", "l40s",
    "rtx3090", "rtx4070ti", "rtx4080", "rtx4090", "rtx5070ti", "rtx5080", "rtx5090", "rtx6000ada", "rtxpro6000",
    "h100pcie", "h100sxm", "h100nvl", "h200sxm", "h200nvl", "gh200", "b200", "gb200", "gb10", "jetsonorin"])
def test_the_table_holds_the_card(words):
    assert gpu_specs.of_words(words) is TABLE[words]


@pytest.mark.parametrize("key", TABLE)
def test_a_cards_rates_stand_in_the_ratios_of_its_hardware(key):
    spec = TABLE[key]
    bf16, fp16, tf32 = (rate(spec, dtype) for dtype in ("bf16", "fp16", "tf32"))
    fp8, fp4, int8 = (rate(spec, dtype) for dtype in ("fp8", "fp4", "int8"))
    is_geforce = "GeForce" in spec.name
    assert set(spec.tflops) <= set(DTYPES)
    assert bf16 == fp16 or bf16 is None
    if bf16 and tf32:
        assert tf32 == pytest.approx(bf16 / 2, rel=0.03)
    if bf16 and fp8:
        assert fp8 == pytest.approx(2 * bf16, rel=0.03)
    if bf16 and int8:
        assert int8 == pytest.approx((4 if is_geforce else 2) * bf16, rel=0.03)
    if fp8 and fp4:
        assert fp4 == pytest.approx((4 if is_geforce else 2) * fp8, rel=0.03)


@pytest.mark.parametrize("key", TABLE)
def test_a_cards_memory_bandwidth_and_power_are_of_a_sane_size(key):
    spec = TABLE[key]
    fp32 = rate(spec, "fp32")
    assert spec.bandwidth_gbps
    assert fp32
    assert spec.power_w
    assert 200 <= spec.bandwidth_gbps.value <= 8000
    assert 40 <= spec.power_w.value <= 1200
    assert 5 <= fp32 / spec.bandwidth_gbps.value * 1000 <= 130  # FLOP per byte
    if spec.memory_gb:
        assert 2 <= spec.bandwidth_gbps.value / spec.memory_gb.value <= 64  # times a second that all of it can be read
    if spec.l2_bytes:
        assert 4 << 20 <= spec.l2_bytes.value <= 128 << 20
    if spec.shared_per_block_bytes:
        assert spec.shared_per_block_bytes.value in {kib << 10 for kib in (64, 96, 99, 163, 227)}


@pytest.mark.parametrize("key", [key for key, spec in TABLE.items() if spec.sm_count and spec.boost_mhz])
def test_documents_agree_with_multiprocessors_times_clock(key):
    """Two ways to the same number; Hopper and Blackwell are rated below their highest clock, so they stand lower."""
    spec = TABLE[key]
    assert spec.sm_count
    assert spec.boost_mhz
    reckoned = worked_out.rates_of(spec.compute_capability, int(spec.sm_count.value), spec.boost_mhz.value,
                                   "GeForce" in spec.name)
    below = 0.16 if spec.compute_capability in ("9.0", "10.0") else 0.03
    for dtype, stated in spec.tflops.items():
        assert (1 - below) * reckoned[dtype].value <= stated.value <= 1.06 * reckoned[dtype].value, dtype


def test_the_h200_is_as_its_data_sheet_and_as_cuda_says():
    spec = TABLE["h200sxm"]

    assert spec.tflops["bf16"].value == pytest.approx(989, abs=1)
    assert "with sparsity" in spec.tflops["bf16"].note
    assert spec.bandwidth_gbps
    assert spec.l2_bytes
    assert spec.power_w
    assert (spec.bandwidth_gbps.value, spec.l2_bytes.value, spec.power_w.value) == (4800, 62_914_560, 700)
    assert spec.compute_capability == "9.0"


@pytest.mark.parametrize(("key", "bf16", "fp8", "gbps", "gb", "watts"), [
    ("a100pcie40", 312, None, 1555, 40, 250),
    ("a100pcie80", 312, None, 1935, 80, 300),
    ("a100sxm40", 312, None, 1555, 40, 400),
    ("a100sxm80", 312, None, 2039, 80, 400),
    ("l40s", 362.05, 733, 864, 48, 350),
    ("h100sxm", 1979 / 2, 3958 / 2, 3350, 80, 700),  # these halves: the sheets give Hopper with sparsity only
    ("h100pcie", 1513 / 2, 3026 / 2, 2000, 80, 350),
    ("h100nvl", 1671 / 2, 3341 / 2, 3938, 94, 400),
    ("h200sxm", 1979 / 2, 3958 / 2, 4800, 141, 700),
    ("h200nvl", 1671 / 2, 3341 / 2, 4800, 141, 600),
    ("gh200", 990, 1979, 4000, 96, 1000),
    ("b200", 4500 / 2, 9000 / 2, 7700, 180, 1000),
    ("gb200", 5000 / 2, 10_000 / 2, 8000, 186, 1200),
    ("gb10", None, None, 273, 128, 140),
])
def test_data_centre_cards_are_as_their_sheets_without_sparsity(key, bf16, fp8, gbps, gb, watts):
    spec = TABLE[key]
    assert spec.bandwidth_gbps
    assert spec.memory_gb
    assert spec.power_w

    assert (rate(spec, "bf16"), rate(spec, "fp16"), rate(spec, "fp8")) == (bf16, bf16, fp8)
    assert (spec.bandwidth_gbps.value, spec.memory_gb.value, spec.power_w.value) == (gbps, gb, watts)


@pytest.mark.parametrize(("key", "mib"), [
    ("h100sxm", 50), ("h100nvl", 60), ("h200sxm", 60), ("gh200", 60), ("l40s", 96), ("rtx5090", 96), ("gb10", 24)])
def test_an_l2_is_as_large_as_the_card_itself_answers(key, mib):
    l2 = TABLE[key].l2_bytes
    assert l2

    assert l2.value == mib << 20


@pytest.mark.parametrize("key", [key for key, spec in TABLE.items() if spec.compute_capability in ("8.6", "8.9", "12.0")
                                 and "bf16" in spec.tflops])
def test_accumulation_in_fp32_costs_a_geforce_half_and_its_professional_siblings_nothing(key):
    spec = TABLE[key]

    assert spec.tflops["bf16"].value / spec.tflops["fp32"].value == pytest.approx(
        2 if "GeForce" in spec.name else 4, rel=0.03)


def test_geforce_rates_are_those_of_fp32_accumulation():
    assert rate(TABLE["rtx3090"], "fp16") == pytest.approx(71, abs=0.5)  # 142 with fp16 accumulation
    assert rate(TABLE["rtx4090"], "bf16") == 165.2  # 330.3 with fp16 accumulation
    assert rate(TABLE["rtx4090"], "fp8") == 330.3  # 660.6 with fp16 accumulation
    assert rate(TABLE["rtx5090"], "bf16") == 209.5  # 419 with fp16 accumulation
    assert rate(TABLE["rtx5090"], "fp8") == 419  # 838 with fp16 accumulation
    assert rate(TABLE["rtx5090"], "fp4") == 1676  # accumulates in fp32 only; 3352 with sparsity


@pytest.mark.parametrize(("name", "key"), [
    ("NVIDIA H100 80GB HBM3", "h100sxm"),
    ("NVIDIA H100 PCIe", "h100pcie"),
    ("NVIDIA H100 NVL", "h100nvl"),
    ("NVIDIA H200", "h200sxm"),
    ("NVIDIA H200 NVL", "h200nvl"),
    ("NVIDIA A100-SXM4-40GB", "a100sxm40"),
    ("A100-SXM4-40GB", "a100sxm40"),
    ("NVIDIA A100 80GB PCIe", "a100pcie80"),
    ("Tesla T4", "t4"),
    ("Tesla V100-SXM2-32GB", "v100sxm"),
    ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
    ("NVIDIA GH200 480GB", "gh200"),
    ("NVIDIA GB10", "gb10"),
])
def test_a_drivers_name_finds_its_card(name, key):
    assert gpu_specs.of_driver_name(name) is TABLE[key]


@pytest.mark.parametrize("name", [
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4080 SUPER",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "NVIDIA H100L-2-24C",
    "NVIDIA A10G",
    "NVIDIA L40",
    "NVIDIA H800",
    "RTX 4090 ...",
    "NVIDIA",
    "",
    None,
])
def test_a_laptop_a_slice_a_relative_and_a_cut_name_are_not_the_card(name):
    assert gpu_specs.of_driver_name(name) is None


def test_names_of_real_cards_find_the_right_entry_or_none():
    if not SHARED_FIXTURES.is_dir():
        pytest.skip("the public fixtures are not here")
    vgpu = (SHARED_FIXTURES / "csv_mig_h100l_vgpu_clock_na.csv").read_text("utf-8").split(", ")[2].strip()
    gb10 = (SHARED_FIXTURES / "table_gb10_dgx_spark_580.txt").read_text("utf-8")
    rtx4090 = (SHARED_FIXTURES / "table_rtx4090_595_plus_nvcc.txt").read_text("utf-8")

    assert gpu_specs.of_driver_name(vgpu) is None
    assert gpu_specs.of_driver_name(gb10.split("|   0  ")[1].split("  ")[0]) is TABLE["gb10"]
    assert gpu_specs.of_driver_name(rtx4090.split("|   0  ")[1].split("  ")[0]) is TABLE["rtx4090"]


def test_a_jetson_is_known_by_its_board_as_its_driver_says_orin_for_all():
    assert gpu_specs.of_driver_name("Orin (nvgpu)") is None
    assert gpu_specs.of_driver_name("Orin (nvgpu)", "NVIDIA Jetson AGX Orin Developer Kit") is TABLE["jetsonorin"]
    assert gpu_specs.of_driver_name("Orin (nvgpu)", "NVIDIA Jetson Orin Nano Developer Kit") is None


@pytest.mark.parametrize(("words", "key"), [
    ("rtx5090", "rtx5090"), ("RTX 5090", "rtx5090"), ("NVIDIA GeForce RTX 5090", "rtx5090"), ("h100sxm", "h100sxm"),
    ("H100 SXM", "h100sxm"), ("H100-SXM5", "h100sxm"), ("h200", "h200sxm"), ("DGX Spark", "gb10"), ("tesla t4", "t4")])
def test_a_short_key_or_any_spelling_of_the_name_works(words, key):
    assert gpu_specs.of_words(words) is TABLE[key]


def test_what_is_not_clear_finds_none_and_is_told_what_there_is():
    assert gpu_specs.of_words("h100") is None
    assert gpu_specs.near("h100") == ["h100sxm", "h100pcie", "h100nvl"]
    assert "rtx5090" in gpu_specs.near("rtx509O")
    assert gpu_specs.of_words("") is None
    assert gpu_specs.near("abacus") == []


def test_keys_and_driver_names_are_of_one_card_each():
    names = [name for card in RAW["cards"].values() for name in card["driver_names"]]
    assert len(names) == len(set(names))
    for key, card in RAW["cards"].items():
        for words in (key, card["name"], *card["driver_names"], *card.get("aliases", ())):
            assert gpu_specs.of_words(words) is TABLE[key], words


A10G = Gpu(0, name="NVIDIA A10G", compute_capability="8.6", sm_count=80, max_sm_clock_mhz=1710, memory_bus_bits=384,
           max_memory_clock_mhz=6251, memory_total_mib=23_028, power_limit_default_w=300.0)


def test_an_unknown_card_is_worked_out_from_its_own_properties_and_says_so():
    spec = worked_out.from_properties(A10G)

    assert spec.worked_out
    assert spec.key == ""
    assert spec.bandwidth_gbps
    assert spec.bandwidth_gbps.value == pytest.approx(600, rel=0.001)
    assert spec.bandwidth_gbps.source == "worked out from a bus of 384 bits at 6251 MHz"
    assert spec.tflops["bf16"].source == "worked out from 80 multiprocessors at 1710 MHz, compute capability 8.6"
    assert spec.tflops["fp32"].value == pytest.approx(35.0, rel=0.01)
    assert "fp8" not in spec.tflops
    assert "worked out" in spec.notes[0]


def test_a_geforce_that_is_worked_out_gets_the_rates_of_fp32_accumulation():
    laptop = Gpu(0, name="NVIDIA GeForce RTX 4090 Laptop GPU", compute_capability="8.9", sm_count=76,
                 max_sm_clock_mhz=2040)
    spec = worked_out.from_properties(laptop)

    assert spec.tflops["bf16"].value == pytest.approx(76 * 512 * 2.04 / 1000)
    assert spec.tflops["int8"].value == pytest.approx(76 * 2048 * 2.04 / 1000)
    assert spec.bandwidth_gbps is None
    assert "no peak bandwidth" in " ".join(spec.notes)


def test_a_card_of_which_nothing_is_known_has_no_peaks_and_says_why():
    spec = worked_out.from_properties(Gpu(0, name="NVIDIA Future", compute_capability="99.0"))

    assert spec.tflops == {}
    assert "no peak rates" in " ".join(spec.notes)


def test_a_rate_that_no_document_gives_is_completed_from_the_table_and_says_so():
    spec = worked_out.completed(TABLE["rtx4080"])

    assert "fp8" not in TABLE["rtx4080"].tflops
    assert spec.tflops["fp8"].value == pytest.approx(2 * spec.tflops["bf16"].value, rel=0.03)
    assert spec.tflops["fp8"].source.startswith("worked out from 76 multiprocessors")
    assert spec.tflops["bf16"] is TABLE["rtx4080"].tflops["bf16"]
    assert "fp4" not in spec.tflops  # not in the hardware


def test_a_mig_slice_is_not_the_whole_card():
    whole = TABLE["h200sxm"]
    part = worked_out.slice_of(whole, 132, MigDevice("MIG-1", "NVIDIA H200 MIG 1g.18gb", 16_384, 16))

    assert part.tflops["bf16"].value == pytest.approx(whole.tflops["bf16"].value * 16 / 132)
    assert part.bandwidth_gbps
    assert part.bandwidth_gbps.value == pytest.approx(4800 * 17.18 / 141, rel=0.001)
    assert part.worked_out
    assert part.l2_bytes is None
    assert "MIG slice" in " ".join(part.notes)


def test_a_mig_slice_of_unknown_size_has_no_peaks():
    part = worked_out.slice_of(TABLE["h200sxm"], 132, MigDevice(None, None, None, None))

    assert part.tflops == {}
    assert part.bandwidth_gbps is None


def test_the_page_of_cards_is_made_from_the_table():
    page = (ROOT / "docs" / "gpu-specs.md").read_text("utf-8")

    assert page == gpu_specs.as_markdown(), (
        "rebuild it: python -c 'from hotkernel.judge.gpu_specs import as_markdown; print(as_markdown(), end=\"\")'")
