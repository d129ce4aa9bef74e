"""Reads PTX text and what ptxas -v says of it; judges nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from hotkernel.profilers.instructions import Access, Function, Instruction, ResourceUsage, plain
from hotkernel.schema.explanation import SourcePlace

_ENTRY = re.compile(r"\.entry\s+([\w$.%]+)")
_ARCH = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"(.*?)"(?:\s+"(.*?)")?')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:,.*inlined_at\s+(\d+)\s+(\d+))?")
_LABEL = re.compile(r"\s*([\w$.%]+):(?!:)\s*")
_DEPOT = re.compile(r"\.local\s.*\.b8\s+\S+\[(\d+)\]")
_DIRECTIVE = re.compile(r"\.(?:reqntid|maxntid|minnctapersm|maxnreg|maxnctapersm|reqnctapercluster)\s+\d+(?:,\s*\d+)*")
_STATEMENT = re.compile(r"(?:(@!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_SPACES = {"global": "global", "shared": "shared", "local": "local"}
_TYPE_BITS = re.compile(r"\.(?:[bsuf]|bf|tf)(\d+)(?:x(\d+))?\b")
_LIMITS = {"ret": False, "exit": False, "trap": False}  # what runs on to no next instruction

_COMPILING = re.compile(r"Compiling entry function '(.*?)' for '(sm_\w+)'")
_PROPERTIES = re.compile(r"Function properties for (.+?)\s*$")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


@dataclass
class _Open:
    name: str
    rows: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    directives: list[str] = field(default_factory=list)
    stack_bytes: int | None = None
    depth: int = 0
    entered: bool = False


def parse(text: str) -> tuple[Function, ...]:
    """Every entry of a PTX file; an instruction's address is the number of its line."""
    match = _ARCH.search(text)
    arch = match[1] if match else None
    return tuple(_closed(each, arch) for each in _entries(text.splitlines()))


def is_ptx(text: str) -> bool:
    """Whether `text` is PTX: it must say its version and its target."""
    return bool(re.search(r"^\s*\.version\s+\d", text, re.MULTILINE) and _ARCH.search(text))


def render(text: str, names: Collection[str] = ()) -> list[str]:
    """The listing's lines: as in the file, less the debug sections; with `names`, those entries alone."""
    kept: list[str] = []
    hidden = 0
    inside = False
    for line in _without_wrapping(text):
        if line.lstrip().startswith(".section") and ".debug" in line:
            inside = True
        if inside:
            hidden += 1
            inside = not line.lstrip().startswith("}")
            continue
        kept.append(plain(line.rstrip(), 1000))
    if names:
        return [line for name, block in _blocks(kept) if name in names for line in block]
    return [*kept, f"// {hidden} lines of debug sections left out"] if hidden else kept


def parse_ptxas(log: str) -> tuple[ResourceUsage, ...]:
    """What `ptxas -v` says of each entry; a device function's block behind an entry's never replaces it."""
    found: list[ResourceUsage] = []
    of_entry = False
    for line in log.splitlines():
        if match := _COMPILING.search(line):
            found.append(ResourceUsage(match[1], match[2], None))
            of_entry = True
        elif match := _PROPERTIES.search(line):
            of_entry = bool(found) and match[1] == found[-1].function
        elif found and of_entry and (match := _SPILLS.search(line)):
            found[-1] = replace(found[-1], stack_bytes=int(match[1]), spill_store_bytes=int(match[2]),
                                spill_load_bytes=int(match[3]))
        elif found and of_entry and (match := _USED.search(line)):
            shared = _SHARED.search(line)
            found[-1] = replace(found[-1], registers=int(match[1]), shared_bytes=int(shared[1]) if shared else 0)
    return tuple(found)


def _entries(lines: list[str]) -> Iterator[_Open]:
    files = {match[1]: match[3] or match[2] for line in lines if (match := _FILE.match(line))}  # often at the end
    current: _Open | None = None
    place: SourcePlace | None = None
    buffer = ""
    for number, raw in enumerate(lines, 1):
        if match := _ENTRY.search(raw.split("//", 1)[0]):
            current, place, buffer = _Open(match[1]), None, ""
        if current is None:
            continue
        if match := _LOC.match(raw):
            file, line = (match[3], match[4]) if match[3] else (match[1], match[2])
            place = SourcePlace(plain(files.get(file, f"file {file}"), 400), int(line))
            continue
        line = raw.split("//", 1)[0]
        if not current.entered:
            current.directives += _DIRECTIVE.findall(line)
        if match := _DEPOT.search(line):
            current.stack_bytes = (current.stack_bytes or 0) + int(match[1])
        buffer = _read_line(current, line, buffer, number, place)
        if current.entered and current.depth <= 0:
            yield current
            current = None


def _read_line(current: _Open, line: str, buffer: str, number: int, place: SourcePlace | None) -> str:
    """Take one line's statements into `current`; what is left unfinished is returned for the next line."""
    if not buffer and current.entered and (match := _LABEL.match(line)):
        current.labels[match[1]] = len(current.rows)
        line = line[match.end():]
    for piece in re.split(r"(;|[{}])", line):
        if piece == ";":
            if current.entered:
                _read_statement(current, buffer.strip(), number, place)
            buffer = ""
        elif piece == "{" and not buffer.strip():
            current.depth += 1
            current.entered = True
        elif piece == "{" and not current.entered:  # the body after the entry's parameters
            current.depth, current.entered, buffer = 1, True, ""
        elif piece == "}" and "{" not in buffer:
            current.depth -= 1
        else:
            buffer += piece  # a brace inside a statement holds a vector
            if piece == "}":
                buffer = buffer.replace("{", "(").replace("}", ")")
    return buffer + " " if buffer.strip() else ""


def _read_statement(current: _Open, statement: str, number: int, place: SourcePlace | None) -> None:
    while match := _LABEL.match(statement):
        current.labels[match[1]] = len(current.rows)
        statement = statement[match.end():]
    match = _STATEMENT.match(" ".join(statement.split()))
    if not match:
        return  # a declaration: .reg, .shared, .pragma
    predicate, opcode, operands = match[1] or "", match[2], match[3]
    base = opcode.split(".", 1)[0]
    falls = _LIMITS.get(base, base not in ("bra", "brx")) or bool(predicate)
    current.rows.append(Instruction(number, predicate, opcode, plain(operands, 400), _family(opcode),
                                    _access(opcode, operands), place, (), falls))


def _closed(entry: _Open, arch: str | None) -> Function:
    rows = []
    for row in entry.rows:
        if row.base in ("bra", "brx"):
            named = [word for word in re.findall(r"[\w$.%]+", row.operands) if word in entry.labels]
            targets = tuple(entry.labels[word] for word in named if entry.labels[word] < len(entry.rows))
            rows.append(replace(row, targets=targets))
        else:
            rows.append(row)
    labels = tuple((at, name) for name, at in entry.labels.items() if at < len(rows))
    return Function(plain(entry.name, 10_000), arch, tuple(rows), labels, tuple(entry.directives), entry.stack_bytes)


def _blocks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each entry's name with its lines, from `.entry` to the brace that closes its body."""
    name, depth = "", 0
    block: list[str] = []
    for line in lines:
        code = line.split("//", 1)[0]
        if not name and (match := _ENTRY.search(code)):
            name, block, depth = match[1], [], 0
        if name:
            block.append(line)
            depth += code.count("{") - code.count("}")
            if "}" in code and depth <= 0:
                yield name, block
                name = ""


def _without_wrapping(text: str) -> list[str]:
    """The lines of PTX, less what cuobjdump puts before it."""
    frame = re.compile(r"=+$|Fatbin (?:ptx|elf) code:|(?:arch|code version|host|compile_size|identifier) =|compressed$|"
                       r"ptxasOptions =")
    return [line for line in text.splitlines() if not frame.match(line)]


def _family(opcode: str) -> str:
    parts = opcode.split(".")
    base = parts[0]
    if base in ("mma", "wmma", "wgmma", "tcgen05"):
        if "mma" in parts or "mma_async" in parts:
            return "tensor cores"
        return "tensor memory" if base == "tcgen05" and not {"commit", "wait", "fence"} & set(parts) else "barriers"
    if opcode.startswith(("cp.async", "cp.reduce.async")):
        return "barriers" if "wait" in opcode or "commit" in opcode else "async copy"
    if base in ("ld", "ldu", "st"):
        space = next((part for part in parts if part in ("global", "shared", "local", "param", "const")), "generic")
        return {"param": "constants", "const": "constants", "generic": "global memory"}.get(space, f"{space} memory")
    if base in ("add", "sub", "mul", "fma", "mad", "neg", "abs", "min", "max", "div", "setp", "selp", "rem"):
        floats = re.search(r"\.(f16|bf16|f32|f64)", opcode)
        return {"f16": "fp16", "bf16": "fp16", "f32": "fp32", "f64": "fp64"}[floats[1]] if floats else "integer"
    return _FAMILY_OF.get(base, "other")


_FAMILY_OF = {base: family for family, bases in {
    "barriers": "bar barrier mbarrier membar fence griddepcontrol",
    "atomics": "atom red multimem",
    "shared memory": "ldmatrix stmatrix",
    "cache": "prefetch prefetchu applypriority discard createpolicy",
    "control": "bra brx ret exit call trap nanosleep",
    "moves": "mov prmt mapa cvta",
    "conversion": "cvt",
    "special functions": "ex2 lg2 sin cos tanh rsqrt rcp sqrt",
    "shuffle and vote": "shfl vote match redux elect activemask",
    "integer": "and or xor not shl shr shf bfe bfi popc clz brev lop3 mad24 mul24 sad dp4a dp2a bfind",
}.items() for base in bases.split()}


def _access(opcode: str, operands: str) -> Access | None:
    parts = opcode.split(".")
    if opcode.startswith("cp.async.c") and "bulk" not in parts and "commit_group" not in parts:
        size = re.search(r"\],\s*(0x[0-9a-f]+|\d+)\b", operands)
        return Access("global", False, 8 * int(size[1], 0) if size else None)
    if parts[0] not in ("ld", "ldu", "st") or {"param", "const"} & set(parts):
        return None
    space = next((_SPACES[part] for part in parts if part in _SPACES), "generic")
    lanes = next((int(part[1:]) for part in parts if re.fullmatch(r"v[248]", part)), 1)
    kinds = _TYPE_BITS.findall(opcode)
    return Access(space, parts[0] == "st", lanes * int(kinds[-1][0]) if kinds else None)
