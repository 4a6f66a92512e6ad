"""Where a process's memory is: the weights in the pool, the segments it lists, and everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cluster import Cluster, mappings


@dataclass
class Audit:
    """One process, in bytes."""

    weights: set[tuple[str, int]]  # device and inode of every block of the weights it has mapped
    weights_resident: int
    others: int  # private memory and every shared mapping outside the segments that the process lists


def audit(cluster: Cluster, pid: int, tenant: str, set_name: str) -> Audit:
    """Reads smaps and the arbiter's list of segments. Blocks are files of their own, mapped one after another."""
    state = cluster.call("arbiter", "GetState", cluster.messages("arbiter").GetStateRequest(), "GetStateReply")
    block = state.pool.block_bytes
    weights_id = next(s.shared_segment_id for s in state.sets if s.name == set_name)
    listed = [s for s in state.segments if s.tenant == tenant or s.id == weights_id]
    weights = next(s for s in state.segments if s.id == weights_id)
    maps = mappings(pid)
    start = arena_start(maps, block)
    result = Audit(set(), 0, 0)
    for m in maps:
        offset = m["start"] - start
        if not is_block(m) or offset < 0:
            result.others += m["Rss"]
        elif overlaps(offset, m["size"], weights):
            result.weights.add((m["device"], m["inode"]))
            result.weights_resident += m["Rss"]
        elif not any(overlaps(offset, m["size"], s) for s in listed):
            result.others += m["Rss"]
    return result


def is_block(mapping: dict[str, Any]) -> bool:
    """Whether this is a block of the arena."""
    return mapping["path"].startswith("/memfd:tandem")


def arena_start(maps: list[dict[str, Any]], block: int) -> int:
    """Address of the arena's first byte: the reserved range that blocks are mapped into starts there."""
    first = next((i for i, m in enumerate(maps) if is_block(m)), None)
    if first is None:
        raise AssertionError("no block of the pool is mapped")
    start = maps[first]["start"]
    while first > 0 and maps[first - 1]["permissions"].startswith("---") and _end(maps[first - 1]) == start:
        first -= 1
        start = maps[first]["start"]
    if block <= 0:
        raise AssertionError("the arbiter does not say how large a block is")
    return start


def _end(mapping: dict[str, Any]) -> int:
    return mapping["start"] + mapping["size"]


def overlaps(offset: int, size: int, segment: Any) -> bool:
    """Whether a mapped range touches a segment."""
    return offset < segment.offset_bytes + segment.size_bytes and segment.offset_bytes < offset + size
