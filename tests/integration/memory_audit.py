"""Where a process's memory is: the weights in the pool, the segments it lists, and everything else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cluster import Cluster, mappings

BLOCK = re.compile(r"/memfd:tandem-block-(\d+)")


@dataclass
class Audit:
    """One process, in bytes."""

    weights: set[tuple[str, int]]  # device and inode of every block of the weights it has mapped
    weights_resident: int
    others: int  # private memory and every shared mapping outside the segments that the process lists


def audit(cluster: Cluster, pid: int, tenant: str, set_name: str) -> Audit:
    """Reads smaps and the arbiter's list of segments. Blocks are files of their own, named by their place in the arena."""
    state = cluster.call("arbiter", "GetState", cluster.messages("arbiter").GetStateRequest(), "GetStateReply")
    weights_id = next(s.shared_segment_id for s in state.sets if s.name == set_name)
    listed = [s for s in state.segments if s.tenant == tenant or s.id == weights_id]
    weights = next(s for s in state.segments if s.id == weights_id)
    result = Audit(set(), 0, 0)
    for m in mappings(pid):
        block = BLOCK.match(m["path"])
        offset = int(block[1]) * state.pool.block_bytes + m["offset"] if block else 0
        if block and overlaps(offset, m["size"], weights):
            result.weights.add((m["device"], m["inode"]))
            result.weights_resident += m["Rss"]
        elif not block or not any(overlaps(offset, m["size"], s) for s in listed):
            result.others += m["Rss"]
    return result


def overlaps(offset: int, size: int, segment: Any) -> bool:
    """Whether a mapped range touches a segment."""
    return offset < segment.offset_bytes + segment.size_bytes and segment.offset_bytes < offset + size
