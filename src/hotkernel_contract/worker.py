"""One side's process: loads its function, maps its slots, runs batches when told; holds no number and no secret."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import traceback
from typing import Any, Dict, List, Tuple

import torch

from hotkernel_contract import confinement, protocol, warming
from hotkernel_contract.call import Call, NotTensors
from hotkernel_contract.side_source import Refused, describe, load_side
from hotkernel_contract.slots import DeviceArena, Driver, Field, HostArena, Twins, views

OF_THE_SIDE = ("names", "target", "case", "baseline")  # of a layout's call: what Call itself does not hold
WITNESS_SPIN_CYCLES = 10_000_000  # about 5 ms, in which the calls are queued
_PR_SET_DUMPABLE, _PR_SET_PTRACER = 4, 0x59616D61


def main(channel: socket.socket, spec: Dict[str, Any]) -> None:
    """Say hello, load, map, then run batches until the channel closes."""
    if sys.platform.startswith("linux"):  # undo the zygote's secrecy for this process: the oracle must read its outputs
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
    if spec["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, spec["cores"])
    held = confinement.confine(spec["device"] == "cuda")  # before any thread and the candidate's code
    warming.lay_modules()  # after that: it follows no link to where this side may not write
    if spec["device"] == "cpu":
        keep_memory()
    os.chdir(spec["scratch"])
    if spec["threads"]:
        torch.set_num_threads(spec["threads"])
    try:
        side = Side(channel, spec, held)
        side.serve()
    except EOFError:
        os._exit(0)
    except Refused as refusal:
        channel.sendall(protocol.pack_text(protocol.FAULT, refusal.code, str(refusal)))
    except BaseException as error:  # noqa: BLE001 - user code raises anything; it is data, and this process ends
        traceback.print_exc()
        channel.sendall(protocol.pack_text(protocol.FAULT, protocol.FAULT_CALL, describe(error)))
    os._exit(0)


def keep_memory() -> None:
    """Let freed memory be used again instead of going back to the system: whether it goes depends on a process's history,
    and made two processes of one code differ by half on calls of 0.2 ms."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return  # no glibc
    mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its most
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


def address_of(output: torch.Tensor) -> int:
    """Where an output's first element lies; 0 for what has no such place (a sparse one), which is told later."""
    return output.data_ptr() if output.layout is torch.strided else 0


class Side:
    """The function with its slots; a batch is a list of calls, each on a slot of its own."""

    def __init__(self, channel: socket.socket, spec: Dict[str, Any], held: int) -> None:
        self.channel, self.spec = channel, spec
        self.on_card = spec["device"] == "cuda"
        self.driver: Any = None
        if self.on_card:
            torch.cuda.init()
            torch.zeros(1, device="cuda")
            self.driver = Driver()
            self.stream = torch.cuda.current_stream()
        self.segments: Dict[int, Tuple[int, int]] = {}  # start of an allocation -> (number, size)
        self.linked: List[List[List[torch.Tensor]]] = []  # what the calls that are queued one behind the other have returned
        channel.sendall(protocol.pack(protocol.HELLO, held))  # all contexts are there before anything is measured
        frame = self.receive()
        if frame.kind != protocol.MAP:
            raise EOFError
        layout, files = protocol.receive_message(self.channel)  # from the referee, which runs no candidate either
        self.call = Call.from_plain({name: value for name, value in layout["call"].items() if name not in OF_THE_SIDE})
        self.names: List[str] = layout["call"]["names"]  # of what the baseline returns
        self.function, self.setup = load_side(spec, layout["call"])  # not before it is told to: before, no candidate is there
        self.map_slots(layout, files)

    def map_slots(self, layout: Dict[str, Any], files: List[int]) -> None:
        """Map the slots, set up, call the function on them once or more (compile, autotune), say ready."""
        size, out_size = layout["size"], layout["out_size"]
        fields = [Field.from_plain(f) for f in layout["fields"]]
        handles = bytes.fromhex(layout["map"])
        self.by_handle = self.on_card and bool(handles)
        if self.by_handle:
            self.done = torch.cuda.Event(interprocess=True, enable_timing=False)
            self.done.record(self.stream)  # an inter-process event must be recorded before anyone waits for it
            arena: Any = DeviceArena(size, self.driver, handles[:64])
            out_arena: Any = DeviceArena(out_size, self.driver, handles[64:128]) if out_size else None
            self.go = torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), handles[128:192])
        else:
            arena = HostArena(size, files[0])
            out_arena = HostArena(out_size, files[1]) if out_size else None
        self.arena = arena
        start = arena.base.data_ptr()
        self.input_range = (start, start + arena.size)
        columns = {f.name: views(arena.base, f) for f in fields}
        self.twins = Twins(columns, self.call.static, self.call.writes) if self.on_card and not self.by_handle else None
        columns = self.twins.here if self.twins else columns
        slots = max(len(c) for c in columns.values())
        copied = [views(out_arena.base, Field.from_plain(f)) for f in layout["output_fields"]] if out_size else []
        self.copy_to = [[column[at] for column in copied] for at in range(len(copied[0]))] if copied else []
        with torch.no_grad():
            shared = self.set_up(self.call.values({name: c[0] for name, c in columns.items() if len(c) == 1}))
            self.slots = [{**shared, **self.call.values({name: c[k] for name, c in columns.items() if len(c) > 1})}
                          for k in range(slots)]
            self.arguments = [self.call.arguments(values) for values in self.slots]
            self.run = self.call.runner(self.function)
            for k in range(min(2, slots)):
                for output in self.outputs_of(self.run(self.arguments[k]), k):
                    self.kind_of(output)
            if self.on_card:
                torch.cuda.synchronize()
        handle = self.done.ipc_handle() if self.by_handle else b""
        self.channel.sendall(protocol.pack(protocol.READY, os.getpid() & 0xFFFF, 0, handle))

    def set_up(self, shared: Dict[str, Any]) -> Dict[str, Any]:
        """What the side prepares, once, from the inputs that are declared static; the referee times it apart."""
        if not (self.call.static and self.setup):
            return shared
        self.channel.sendall(protocol.pack(protocol.SETUP, 1))
        prepared = self.call.prepared(self.setup, shared)
        if self.on_card:
            torch.cuda.synchronize()
        self.channel.sendall(protocol.pack(protocol.SETUP, 0))
        return prepared

    def outputs_of(self, returned: Any, slot: int) -> List[torch.Tensor]:
        """The tensors that a call returned, in the baseline's order; raises Refused where they are others."""
        if type(returned) is torch.Tensor and self.names == ["output"]:
            return [returned]
        try:
            found = self.call.outputs(returned, self.slots[slot])
        except NotTensors as error:
            raise Refused(protocol.FAULT_OUTPUT, str(error)) from None
        if list(found) != self.names:
            raise Refused(protocol.FAULT_OUTPUT, "it returned %s, the baseline %s" % (
                ", ".join(found) or "nothing", ", ".join(self.names) or "nothing"))
        return list(found.values())

    def serve(self) -> None:
        """Run batches until the channel closes."""
        with torch.no_grad():
            while True:
                frame = self.receive()
                if frame.kind in (protocol.RUN, protocol.LINK):
                    rest = [self.receive() for _ in range(protocol.frames_of(frame.number) - 1)]
                    order = protocol.unpack_numbers([frame, *rest])
                    if self.by_handle:
                        self.run_on_card(order, frame.nonce, is_link=frame.kind == protocol.LINK)
                    else:
                        self.run_on_host(order, frame.nonce)
                elif frame.kind == protocol.WITNESS:
                    self.channel.sendall(protocol.pack_witness(self.own_us(frame.number), frame.nonce))

    def run_calls(self, order: List[int]) -> List[List[torch.Tensor]]:
        """The calls of a batch, and what each returned; copied out where the outputs cannot be read where they lie."""
        run, arguments, copies = self.run, self.arguments, self.copy_to
        if not copies:
            returned = [run(arguments[k]) for k in order]
            return [self.outputs_of(each, k) for each, k in zip(returned, order)]
        outputs = []
        if self.twins:
            self.twins.bring_shared()
        for at, k in enumerate(order):
            if self.twins:
                self.twins.bring(k)
            mine = self.outputs_of(run(arguments[k]), k)
            outputs.append(mine)
            for output, into in zip(mine, copies[at]):
                if output.shape == into.shape:
                    into.copy_(output)
            if self.twins:
                self.twins.take_back(k)
        return outputs

    def own_us(self, calls: int) -> float:
        """Microseconds a call by a pair of this process's own events, queued behind a spin."""
        order = [at % len(self.slots) for at in range(calls)]
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(WITNESS_SPIN_CYCLES)
        began.record()
        held = self.run_calls(order)
        ended.record()
        torch.cuda.synchronize()
        del held
        return began.elapsed_time(ended) * 1e3 / calls

    def run_on_host(self, order: List[int], nonce: int) -> None:
        """The clock runs from the RUN frame to the last DONE frame: calls, and where their outputs lie."""
        outputs = self.run_calls(order)
        addresses = [address_of(o) for each in outputs for o in each]
        self.channel.sendall(protocol.pack_numbers(protocol.DONE, addresses, nonce))
        self.channel.sendall(self.describe_outputs(outputs, nonce) + protocol.pack(protocol.END, 0, nonce))
        self.release(nonce)

    def run_on_card(self, order: List[int], nonce: int, *, is_link: bool) -> None:
        """Queue everything behind GO, record DONE, say armed; the stamps are the oracle's. Behind a link another call is queued
        before this one has run: what it returned is held until the last of them was read."""
        self.stream.wait_event(self.go)
        outputs = self.run_calls(order)
        self.done.record(self.stream)
        self.linked.append(outputs)
        self.channel.sendall(self.describe_outputs(outputs, nonce) + protocol.pack(protocol.END, 0, nonce))
        if not is_link:
            self.release(nonce)
            torch.cuda.synchronize()
            self.linked.clear()

    def release(self, nonce: int) -> None:
        """Hold the outputs until they were read."""
        while True:
            frame = self.receive()
            if frame.kind == protocol.RELEASE and frame.nonce == nonce:
                return

    def describe_outputs(self, outputs: List[List[torch.Tensor]], nonce: int) -> bytes:
        """Frames that say where the outputs lie; new device allocations first."""
        new: List[bytes] = []
        described = [self.place(call, which, output, new, nonce)
                     for call, mine in enumerate(outputs) for which, output in enumerate(mine)]
        return b"".join(new) + protocol.pack_outputs(described, nonce)

    def place(self, call: int, which: int, output: torch.Tensor, new: List[bytes], nonce: int) -> protocol.OutputAt:
        """Where one output lies; raises Refused for what is no output."""
        dtype, shape, strides = self.kind_of(output)
        storage = output.untyped_storage().nbytes()
        address = output.data_ptr()
        if self.input_range[0] <= address < self.input_range[1]:
            return protocol.OutputAt(call, which, dtype, shape, strides, protocol.ARENA, address - self.input_range[0], storage)
        if self.copy_to or not self.on_card or not output.numel():
            return protocol.OutputAt(call, which, dtype, shape, strides, protocol.ADDRESS, address, storage)
        start, size = self.driver.range_of(address)
        if start not in self.segments or self.segments[start][1] != size:
            self.segments[start] = (len(self.segments), size)
            new.append(protocol.pack_segment(self.segments[start][0], size, self.driver.offer(start), nonce))
        return protocol.OutputAt(call, which, dtype, shape, strides, self.segments[start][0], address - start, storage)

    def kind_of(self, output: torch.Tensor) -> Tuple[str, Tuple[int, ...], Tuple[int, ...]]:
        """dtype, shape and strides of an output; raises Refused."""
        if output.device.type != ("cuda" if self.on_card else "cpu"):
            raise Refused(protocol.FAULT_OUTPUT, "it returned a tensor on %s" % output.device)
        dtype = str(output.dtype).replace("torch.", "")
        if dtype not in protocol.DTYPES or output.dim() > protocol.MAX_DIMENSIONS or output.layout is not torch.strided:
            raise Refused(protocol.FAULT_OUTPUT, "it returned a %s tensor of %d dimensions" % (dtype, output.dim()))
        return dtype, tuple(output.shape), tuple(output.stride())

    def receive(self) -> protocol.Frame:
        """The next frame from the referee."""
        return protocol.unpack(protocol.receive_exactly(self.channel, protocol.FRAME_BYTES))
