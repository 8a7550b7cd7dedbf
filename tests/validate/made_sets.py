"""Files in the forms of published sets, made by hand."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def rows_of(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def request(number: int, arrival: float, scheduled: float, first: float, last: float, prompt: int, output: int):
    """One line of requests.jsonl; the client's clock is 1,000 s ahead of the engine's."""
    return {
        "request_id": f"bench-{number}",
        "input_toks": prompt,
        "output_toks": output,
        "arrival_time": arrival + 1000.0,
        "queued_ts": arrival + 0.001 * (number > 0),
        "scheduled_ts": scheduled,
        "first_token_ts": first,
        "last_token_ts": last,
    }
