"""Reads what cuobjdump and nvdisasm print about machine code, and writes it as a listing; judges nothing."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hotkernel.profilers.instructions import Access, Function, Instruction, ResourceUsage, plain, tail
from hotkernel.schema.explanation import SourcePlace

WHOLE_NAME = 10_000  # two kernels may share the first 200 characters; names are cut where they are shown
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+\{?\s*(.*?)\s*[;}]")
_PARTS = re.compile(r"(?:(@!?U?P\w+)\s+)?(\S+)\s*(.*)")
_SECTION = re.compile(r'\s*\.section\s+"?(\.[^",]+)')
_FUNCTION = re.compile(r"\s*Function : (.+?)\s*$")
_LABEL = re.compile(r"(\S+):\s*$")
_PLACE = re.compile(r'\s*//## File "(.*?)", line (\d+)')
_TARGET_ARCH = re.compile(r"(?:\s*code for|\s*\.target|\s*arch =)\s+(sm_\w+)")
_FLAGS_ARCH = re.compile(r'\.headerflags\s+@"(.*)"')
_FATBIN = re.compile(r"Fatbin (?:elf|ptx) code:")
_NAMED_TARGET = re.compile(r"`\(([^)]+)\)|(\.L_x_\d+)")
_PLAIN_TARGET = re.compile(r"(?:^|[\s,])0x([0-9a-f]+)$")
_BARRIER_REGISTER = re.compile(r"\b(B\d+)\b")
_ENDS = frozenset({"EXIT", "RET", "KILL", "BRX", "JMX", "BRXU", "JMXU"})
_JUMPS = frozenset({"BRA", "JMP"})
_NAMES_A_TARGET = _JUMPS | {"BRX", "JMX", "BRXU", "JMXU", "CALL", "WARPSYNC"}

TENSOR = re.compile(r"(?:UTC)?[A-Z]{1,2}MMA")  # HMMA, HGMMA, QMMA, UTCQMMA …; HFMA2.MMA is no such: its base is HFMA2
_FAMILIES = {
    "global memory": "LDG STG LD ST LDGMC",
    "async copy": "LDGSTS UBLKCP UBLKPF UTMALDG UTMASTG UTMAPF UTMACCTL UTMAREDG UBLKRED LDGDEPBAR",
    "shared memory": "LDS STS LDSM STSM ATOMS LDSLK STAS REDAS",
    "local memory": "LDL STL",
    "constants": "LDC LDCU ULDC",
    "atomics": "ATOM ATOMG RED REDG",
    "texture and surface": "TEX TLD TLD4 TMML TXD TXQ TEXS TLDS TLD4S SULD SUST SUATOM SURED SUQUERY",
    "tensor memory": "LDTM STTM UTCCP UTCSHIFT LDT STT UTCATOMSWS",
    "barriers": "BAR SYNCS DEPBAR MEMBAR ERRBAR CGAERRBAR WARPGROUP WARPGROUPSET UCGABAR_ARV UCGABAR_WAIT FENCE UTCBAR "
                "UTMACMDFLUSH ARRIVES B2R WARPSYNC",
    "control": "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK YIELD NANOSLEEP NOP KILL BPT BMOV PREEXIT "
               "ACQBULK RPCMOV LEPC UCPREEXIT UVIRTCOUNT CCTL CCTLL CCTLT UCCTL "
               "SSY SYNC CAL PBK BRK PCNT CONT",
    "fp32": "FADD FMUL FFMA FMNMX FMNMX3 FSEL FSET FSETP FCHK FSWZADD FADD2 FMUL2 FFMA2 FADD32I FMUL32I FFMA32I FHADD "
            "FHFMA FCMP UFADD UFMUL UFFMA UFSEL UFSETP UFSET UFMNMX",
    "fp16": "HADD2 HMUL2 HFMA2 HMNMX2 HSET2 HSETP2 HADD2_32I HMUL2_32I HFMA2_32I HMNMX3",
    "fp64": "DADD DMUL DFMA DSETP DMNMX DSET",
    "conversion": "F2F F2FP F2I I2F I2FP FRND F2IP I2I I2IP F2FPX UF2FP UI2F UI2FP UF2I UFRND",
    "special functions": "MUFU",
    "shuffle and vote": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "moves": "MOV MOV32I UMOV CS2R CS2UR S2R S2UR R2UR R2B P2R R2P PRMT UPRMT SEL USEL MOVM UP2UR UR2UP S2B",
    "integer": "IADD IADD3 IADD32I IMAD IMUL LEA LOP LOP3 LOP32I SHF SHL SHR ISETP ISET IMNMX IABS ISCADD POPC FLO "
               "BREV BMSK SGXT VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 VHMNMX IDP IDP4A PLOP3 PSETP XMAD BFE "
               "BFI ICMP ISCADD32I",
}
_FAMILY_OF = {opcode: family for family, opcodes in _FAMILIES.items() for opcode in opcodes.split()}
_SPACES = {"LDG": "global", "STG": "global", "LDGSTS": "global", "LD": "generic", "ST": "generic", "LDS": "shared",
           "STS": "shared", "LDSM": "shared", "STSM": "shared", "LDL": "local", "STL": "local"}
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "96": 96, "128": 128, "256": 256}
_STACK_POINTER = re.compile(r"\[R1(?:[+\-][^\]]*)?\]")


@dataclass
class _Open:
    """A function while its lines are still coming."""

    name: str
    arch: str | None
    rows: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # name to position


def parse(listing: str) -> tuple[Function, ...]:
    """Every kernel in what `cuobjdump -sass` or `nvdisasm -c` (with or without -g, -gi) printed, in its order."""
    return tuple(_closed(each) for each in _opened(listing.splitlines()) if each.rows)


def instruction(text: str, address: int, place: SourcePlace | None = None) -> Instruction:
    """One instruction from its text, such as `@!P4 LDG.E.128 R12, desc[UR6][R4.64]`; its targets are still open."""
    match = _PARTS.match(text.strip())
    predicate, opcode, operands = (match[1] or "", match[2], match[3]) if match else ("", "?", "")
    base = opcode.split(".", 1)[0]
    ends = (base in _ENDS or base in _JUMPS) and not predicate and not (base in _JUMPS and "," in operands)
    return Instruction(address, predicate, opcode, plain(operands, 400), _family(base, opcode),
                       _access(base, opcode, operands), place, (), not ends)


def parse_resource_usage(text: str) -> tuple[ResourceUsage, ...]:
    """What `cuobjdump --dump-resource-usage` printed: one entry a function and architecture."""
    found: list[ResourceUsage] = []
    arch, function = None, None
    for line in text.splitlines():
        if match := _TARGET_ARCH.match(line):
            arch = match[1]
        elif match := re.match(r"\s*Function (.+):\s*$", line):
            function = match[1]
        elif function and "REG:" in line:
            numbers = {key: int(value) for key, value in re.findall(r"([A-Z]+):(\d+)", line)}
            found.append(ResourceUsage(function, arch, numbers.get("REG"), numbers.get("STACK"), numbers.get("SHARED")))
            function = None
    return tuple(found)


def render(functions: Iterable[Function]) -> list[str]:
    """The listing's lines: no encodings, a source line where it changes, a label where a branch names it."""
    lines: list[str] = []
    for function in functions:
        lines.append(f"Function : {plain(function.name)}" + (f"  ({function.arch})" if function.arch else ""))
        labels: dict[int, list[str]] = {}
        for position, name in function.labels:
            labels.setdefault(position, []).append(name)
        place = None
        for position, each in enumerate(function.instructions):
            lines += [f"{plain(name)}:" for name in labels.get(position, ())]
            if each.place != place and each.place is not None:
                lines.append(f"  // {plain(tail(each.place.file))}:{each.place.line}")
            place = each.place
            lines.append(f"  /*{each.address:04x}*/ {each.predicate:>5} {plain(each.opcode)} {each.operands}".rstrip())
    return lines


def _opened(lines: Sequence[str]) -> Iterator[_Open]:
    arch, current, place, run_of_places = None, None, None, False
    for line in lines:
        if match := _INSTRUCTION.match(line):
            run_of_places = False
            if current is not None:
                current.rows.append(instruction(match[2], int(match[1], 16), place))
        elif match := _PLACE.match(line):
            # Of places in a row the first is innermost in an inlined call, the last the kernel's own line.
            if not (run_of_places and _is_library(match[1])):
                place = SourcePlace(plain(match[1], 400), int(match[2]))
            run_of_places = True
        elif match := _SECTION.match(line) or _FUNCTION.match(line):
            if current is not None:
                yield current
            name = match[1].removeprefix(".text.")
            current = None if name.startswith(".") else _Open(name, arch)
            place = None
        elif match := _TARGET_ARCH.match(line):
            arch = match[1]
        elif match := _FLAGS_ARCH.search(line):
            arch = _arch_of_flags(match[1]) or arch
            if current is not None and current.arch is None:
                current.arch = arch
        elif _FATBIN.match(line):
            arch = None
        elif current is not None and (match := _LABEL.match(line)) and not match[1].startswith(".text."):
            current.labels[match[1]] = len(current.rows)
    if current is not None:
        yield current


def _is_library(file: str) -> bool:
    """Whether a place is the toolkit's own header or Triton's language library, where a user cannot edit."""
    return "site-packages/" in file or "/targets/x86_64-linux/include/" in file


def _arch_of_flags(flags: str) -> str | None:
    match = re.search(r"EF_CUDA_SM(\d+)\b", flags)
    return f"sm_{match[1]}{'a' if 'ACCELERATORS' in flags else ''}" if match else None


def _closed(open_function: _Open) -> Function:
    rows = _without_padding(open_function.rows, open_function.labels)
    positions = {row.address: position for position, row in enumerate(rows)}
    addresses = sorted(positions)
    reconvergence: dict[str, list[int]] = {}
    named: list[tuple[int, ...]] = []
    for row in rows:
        found = _targets(row, open_function.labels, positions, addresses)
        named.append(found)
        if row.base == "BSSY" and (register := _BARRIER_REGISTER.search(row.operands)):
            reconvergence.setdefault(register[1], []).extend(found)
    closed = []
    for row, found in zip(rows, named, strict=True):
        if row.base == "BSYNC" and (register := _BARRIER_REGISTER.search(row.operands)):
            closed.append(replace(row, targets=tuple(dict.fromkeys(reconvergence.get(register[1], ())))))
        else:
            closed.append(replace(row, targets=found) if found and row.base in _NAMES_A_TARGET else row)
    used = {name for row in rows for pair in _NAMED_TARGET.findall(row.operands) for name in pair if name}
    labels = tuple((at, name) for name, at in open_function.labels.items() if name in used and 0 < at < len(rows))
    return Function(plain(open_function.name, WHOLE_NAME), open_function.arch, tuple(closed), labels)


def _without_padding(rows: list[Instruction], labels: dict[str, int]) -> list[Instruction]:
    """`rows` without the branch to itself and the NOPs that fill a function to its alignment."""
    end = len(rows)
    while end and rows[end - 1].base == "NOP":
        end -= 1
    last = rows[end - 1] if end else None
    if last is not None and last.base == "BRA" and not last.predicate and end > 1:
        named = _NAMED_TARGET.search(last.operands)
        plain_target = _PLAIN_TARGET.search(last.operands)
        at = labels.get(named[1] or named[2]) if named else None
        if at == end - 1 or (plain_target and int(plain_target[1], 16) == last.address):
            return rows[: end - 1]
    return rows


def _targets(row: Instruction, labels: dict[str, int], positions: dict[int, int],
             addresses: list[int]) -> tuple[int, ...]:
    """The positions that an instruction's operands name: labels, or offsets."""
    if row.base == "RET" or not (row.base in _NAMES_A_TARGET or row.base == "BSSY"):
        return ()
    names = [one or other for one, other in _NAMED_TARGET.findall(row.operands)]
    found = [labels[name] for name in names if name in labels]
    if not names and (match := _PLAIN_TARGET.search(row.operands)):
        address = int(match[1], 16)
        at = bisect.bisect_left(addresses, address)
        found = [positions[addresses[at]]] if at < len(addresses) and addresses[at] == address else []
    return tuple(at for at in found if at < len(positions))


def _family(base: str, opcode: str) -> str:
    if TENSOR.fullmatch(base):
        return "tensor cores"
    if opcode.startswith(("IMAD.MOV", "HFMA2.MMA.MOV")):
        return "moves"
    return _FAMILY_OF.get(base) or ("uniform integer" if base.startswith("U") else "other")


def _access(base: str, opcode: str, operands: str) -> Access | None:
    space = _SPACES.get(base)
    if space is None:
        return None
    bits: int | None = next((_WIDTHS[part] for part in reversed(opcode.split(".")[1:]) if part in _WIDTHS), 32)
    if base in ("LDSM", "STSM"):  # 8x8 matrices of 16 bits: a register of each thread for each of them
        matrices = opcode.rsplit(".", 1)[-1]
        bits = 32 * int(matrices) if matrices in ("1", "2", "4") else 32
    is_store = base.startswith("ST")
    return Access(space, is_store, bits, space == "local" and bool(_STACK_POINTER.search(operands)))
