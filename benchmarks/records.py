"""The results of a benchmark: records in ``build/bench/<benchmark>.json``, one per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "build" / "bench"


def record(
    name: str, *, ours_s: float, peer: str | None = None, peer_s: float | None = None, bytes_: int = 0, **more: Any
) -> dict[str, Any]:
    """One line of work. ``ratio`` is the peer's time divided by ours (more is better for us); None if no peer ran."""
    ratio = None if peer_s is None or not ours_s else round(peer_s / ours_s, 2)
    return {"name": name, "ours_s": round(ours_s, 3), "peer": peer, "peer_s": peer_s, "ratio": ratio, "bytes": bytes_, **more}


def write_records(benchmark: str, records: list[dict[str, Any]]) -> Path:
    """Replace the benchmark's file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{benchmark}.json"
    path.write_text("".join(json.dumps(found) + "\n" for found in records))
    return path
