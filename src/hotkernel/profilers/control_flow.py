"""Finds the loops of a function from its branches; knows nothing of what the instructions do."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass

from hotkernel.profilers.instructions import Function

BRANCHES_LIMIT = 400  # backward branches looked at; each costs a walk over the whole function


@dataclass(frozen=True)
class Body:
    """One loop: the position of its head, of its last branch back, and of every instruction between them in time."""

    head: int
    back: int
    positions: tuple[int, ...]


@dataclass(frozen=True)
class _Blocks:
    starts: list[int]  # position of each block's first instruction
    ends: list[int]  # position behind its last
    after: list[tuple[int, ...]]  # blocks that can come next
    before: list[list[int]]


def loops(function: Function) -> tuple[tuple[Body, ...], int]:
    """The function's loops in the order of their heads, and how many backward branches were not looked at.

    A branch back is a loop only when its target lies on every way to it. So the slow path of a division, placed behind
    the end and jumping back, is none.
    """
    blocks = _blocks(function)
    back = [(at, head) for at, after in enumerate(blocks.after) for head in after if head <= at]
    roots = _roots(blocks)
    bodies: dict[int, tuple[int, set[int]]] = {}
    for at, head in back[:BRANCHES_LIMIT]:
        if not _can_reach(roots - {head}, at, blocks, without=head):
            last, body = bodies.get(head, (at, set()))
            bodies[head] = (max(last, at), body | _body(head, at, blocks))
    found = []
    for head, (at, body) in sorted(bodies.items()):
        spans = [range(blocks.starts[block], blocks.ends[block]) for block in sorted(body)]
        found.append(Body(blocks.starts[head], blocks.ends[at] - 1, tuple(itertools.chain.from_iterable(spans))))
    return tuple(found), max(0, len(back) - BRANCHES_LIMIT)


def _blocks(function: Function) -> _Blocks:
    rows = function.instructions
    heads = {0} if rows else set()
    for position, row in enumerate(rows):
        heads.update(row.targets)
        if (row.targets or not row.falls_through) and position + 1 < len(rows):
            heads.add(position + 1)
    starts = sorted(heads)
    number = {start: block for block, start in enumerate(starts)}
    ends = [*starts[1:], len(rows)] if starts else []
    after: list[tuple[int, ...]] = []
    for block, end in enumerate(ends):
        last = rows[end - 1]
        nexts = [number[target] for target in last.targets]
        if last.falls_through and block + 1 < len(starts):
            nexts.append(block + 1)
        after.append(tuple(dict.fromkeys(nexts)))
    before: list[list[int]] = [[] for _ in starts]
    for block, nexts_of in enumerate(after):
        for following in nexts_of:
            before[following].append(block)
    return _Blocks(starts, ends, after, before)


def _roots(blocks: _Blocks) -> set[int]:
    """The first block, and the first of each part that no branch we can read leads to (indirect jumps and calls)."""
    roots: set[int] = set()
    seen: set[int] = set()
    for block in range(len(blocks.starts)):
        if block not in seen:
            roots.add(block)
            _walk([block], blocks, seen)
    return roots


def _walk(stack: list[int], blocks: _Blocks, seen: set[int]) -> None:
    while stack:
        block = stack.pop()
        if block not in seen:
            seen.add(block)
            stack.extend(blocks.after[block])


def _can_reach(roots: Collection[int], goal: int, blocks: _Blocks, *, without: int) -> bool:
    if goal == without:
        return False
    seen = {without}
    _walk(list(roots), blocks, seen)
    return goal in seen


def _body(head: int, at: int, blocks: _Blocks) -> set[int]:
    """The natural loop: what can reach the branch back without passing its head."""
    body = {head}
    stack = [at]
    while stack:
        block = stack.pop()
        if block not in body:
            body.add(block)
            stack.extend(blocks.before[block])
    return body
