"""Works out peaks from a card's properties where no document gives them; each says so. Measures nothing."""

from __future__ import annotations

import dataclasses

from hotkernel.schema.gpu import Gpu, MigDevice
from hotkernel.schema.roofline import Figure, GpuSpec

# Dense FLOP of one multiprocessor in one clock, fp32 accumulation (int8: int32), by compute capability.
# Each follows from a whitepaper's peak over its multiprocessors and boost clock, for example 989.4 T / (132 x 1.83 GHz)
# for 9.0; tests hold them against every card in gpu_specs.toml. A dtype that is missing is not in the hardware.
FLOP_PER_CLOCK: dict[str, dict[str, int]] = {
    "7.0": {"fp16": 1024, "fp32": 128, "fp64": 64},
    "7.5": {"fp16": 1024, "int8": 2048, "fp32": 128, "fp64": 4},
    "8.0": {"tf32": 1024, "bf16": 2048, "fp16": 2048, "int8": 4096, "fp32": 128, "fp64": 128},
    "8.6": {"tf32": 512, "bf16": 1024, "fp16": 1024, "int8": 2048, "fp32": 256, "fp64": 4},
    "8.7": {"tf32": 1024, "bf16": 2048, "fp16": 2048, "int8": 4096, "fp32": 256},
    "8.9": {"tf32": 512, "bf16": 1024, "fp16": 1024, "fp8": 2048, "int8": 2048, "fp32": 256, "fp64": 4},
    "9.0": {"tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192, "fp32": 256, "fp64": 256},
    "10.0": {"tf32": 4096, "bf16": 8192, "fp16": 8192, "fp8": 16384, "fp4": 32768, "int8": 16384,
             "fp32": 256, "fp64": 128},
    "12.0": {"tf32": 512, "bf16": 1024, "fp16": 1024, "fp8": 2048, "fp4": 4096, "int8": 2048, "fp32": 256, "fp64": 4},
}
FLOP_PER_CLOCK["12.1"] = FLOP_PER_CLOCK["12.0"]
# GeForce cards run these at half rate when they accumulate in fp32: 71 against 142 in GA102's whitepaper, appendix A.
HALVED_ON_GEFORCE = ("tf32", "bf16", "fp16", "fp8")
TRANSFERS_PER_CLOCK = 2  # HBM and GDDR, at the clock that NVML gives


def from_properties(gpu: Gpu) -> GpuSpec:
    """A card that is not in the table, from its multiprocessors, clocks, bus width and compute capability."""
    name = gpu.name or "a card without a name"
    width, clock = gpu.memory_bus_bits, gpu.max_memory_clock_mhz
    bandwidth = None
    if width and clock:
        gbps = width / 8 * clock * TRANSFERS_PER_CLOCK / 1000
        bandwidth = Figure(gbps, f"worked out from a bus of {width} bits at {clock} MHz")
    rates = rates_of(gpu.compute_capability, gpu.sm_count, gpu.max_sm_clock_mhz, "GeForce" in name)
    missing = [] if rates else ["no peak rates: its multiprocessors, clock or compute capability are unknown"]
    missing += [] if bandwidth else ["no peak bandwidth: its bus width or memory clock is unknown"]
    return GpuSpec(
        key="",
        name=name,
        compute_capability=gpu.compute_capability,
        tflops=rates,
        bandwidth_gbps=bandwidth,
        memory_gb=_asked(gpu.memory_total_mib and gpu.memory_total_mib * 1024 * 1024 / 1e9),
        power_w=_asked(gpu.power_limit_default_w),
        sm_count=_asked(gpu.sm_count),
        boost_mhz=_asked(gpu.max_sm_clock_mhz),
        worked_out=True,
        notes=("not in the table of cards: its peaks are worked out, at its highest clock, so upper bounds", *missing),
    )


def completed(spec: GpuSpec, gpu: Gpu | None = None) -> GpuSpec:
    """`spec` with rates worked out for the dtypes that its hardware has and no document gives.

    `gpu` is the card itself, where it is here, for what the table does not say of it.
    """
    sms = int(spec.sm_count.value) if spec.sm_count else gpu.sm_count if gpu else None
    clock = spec.boost_mhz.value if spec.boost_mhz else gpu.max_sm_clock_mhz if gpu else None
    rates = rates_of(spec.compute_capability, sms, clock, "GeForce" in spec.name)
    return dataclasses.replace(spec, tflops={**rates, **spec.tflops})


def slice_of(spec: GpuSpec, whole_sms: int | None, device: MigDevice) -> GpuSpec:
    """A MIG slice of a card: its share of the rates by multiprocessors, of the bandwidth by memory."""
    computes = device.sm_count / whole_sms if device.sm_count and whole_sms else None
    memory = device.memory_total_mib * 1024 * 1024 / 1e9 if device.memory_total_mib else None
    holds = memory / spec.memory_gb.value if memory and spec.memory_gb else None
    return dataclasses.replace(
        spec,
        key="",
        name=device.name or f"a MIG slice of {spec.name}",
        tflops={} if computes is None else {dtype: _share(rate, computes, "multiprocessors")
                                            for dtype, rate in spec.tflops.items()},
        bandwidth_gbps=_share(spec.bandwidth_gbps, holds, "memory") if spec.bandwidth_gbps and holds else None,
        memory_gb=_asked(memory),
        l2_bytes=None,
        power_w=None,
        sm_count=_asked(device.sm_count),
        worked_out=True,
        notes=(*spec.notes, "a MIG slice: its peaks are its share of the card's"),
    )


def rates_of(capability: str | None, sms: int | None, clock_mhz: float | None, geforce: bool) -> dict[str, Figure]:
    """Peak TFLOP/s by dtype; empty where one of them is unknown."""
    if not (capability and sms and clock_mhz):
        return {}
    source = f"worked out from {sms} multiprocessors at {clock_mhz:g} MHz, compute capability {capability}"
    halves = HALVED_ON_GEFORCE if geforce and capability != "7.5" else ("fp16",) if geforce else ()
    return {
        dtype: Figure(flop * sms * clock_mhz / 1e6 / (2 if dtype in halves else 1), source)
        for dtype, flop in FLOP_PER_CLOCK.get(capability, {}).items()
    }


def _share(figure: Figure, share: float, of_what: str) -> Figure:
    return Figure(figure.value * share, f"worked out: {share:.1%} of the card's {of_what} ({figure.source})")


def _asked(value: float | None) -> Figure | None:
    return Figure(float(value), "the driver (NVML)") if value else None
