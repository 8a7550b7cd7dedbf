"""What earlier searches have simulated, by content: the same run is not simulated twice.

A run to the end is kept with the latencies of its requests, so that another SLO can be judged on it; one that stopped
early is kept as its verdict, which is good for its own SLO only. The key covers the requests and their times, the
deployment, the cost model and the compiled source. The file is emptied of what was used longest ago when it grows
beyond a limit, and may be deleted at any time. One that is broken is begun anew, and one that another process does not
let go of is not used: a search never fails by its cache.
"""

import hashlib
import io
import json
import sqlite3
import threading
import time
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.compiled import cache_root, fingerprint
from twofold.cost.contract import CostModel
from twofold.plan.document import deployment_mapping
from twofold.simulate.build import Member, cost_of
from twofold.simulate.result import Result
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.group import POLICIES, Group
from twofold.spec.model import Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

FORMAT = 2
CODE = fingerprint()
MOST_BYTES = 400_000_000
PATIENCE_S = 2.0
"""How long to wait for another process that writes."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Recorded:
    """The latencies of a run to the end, as ``Result`` has them: float64[n] seconds, NaN where it never happened.

    ``tbt`` holds the percentiles of all gaps that were asked for, by share.
    """

    ttft_s: Floats
    tpot_s: Floats
    max_tbt_s: Floats
    e2e_s: Floats
    slot_wait_s: Floats
    completed: NDArray[np.bool_]
    kv_peak: float
    tbt: dict[float, float]
    stopped: bool = False

    @classmethod
    def of(cls, result: Result, slo: Slo) -> "Recorded":
        """What is kept of a run."""
        shares = [limit.percentile / 100.0 for limit in slo.percentiles if limit.metric == "tbt"]
        return cls(
            ttft_s=result.ttft_s,
            tpot_s=result.tpot_s,
            max_tbt_s=result.max_tbt_s,
            e2e_s=result.e2e_s,
            slot_wait_s=result.slot_wait_s,
            completed=result.completed,
            kv_peak=result.kv_peak,
            tbt={share: result.tbt_quantile(share) for share in shares},
        )

    def tbt_quantile(self, share: float) -> float:
        """The gap that a share of all gaps do not exceed; KeyError when it was not kept."""
        return self.tbt[share]

    def judges(self, slo: Slo) -> bool:
        """Whether everything that ``slo`` limits was kept."""
        return all(limit.metric != "tbt" or limit.percentile / 100.0 in self.tbt for limit in slo.percentiles)

    def to_bytes(self) -> bytes:
        """Itself, for :meth:`from_bytes`."""
        stream = io.BytesIO()
        arrays = {field.name: getattr(self, field.name) for field in fields(self)[:6]}
        tbt = np.array(sorted(self.tbt.items())).reshape(-1, 2)
        np.savez(stream, **arrays, kv_peak=np.array(self.kv_peak), tbt=tbt)
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Recorded | None":
        """The run that :meth:`to_bytes` wrote; None for anything else."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as kept:
                arrays = {field.name: kept[field.name] for field in fields(cls)[:6]}
                tbt = {float(share): float(gap) for share, gap in kept["tbt"]}
                return cls(**arrays, kv_peak=float(kept["kv_peak"]), tbt=tbt)
        except (ValueError, KeyError, TypeError, OSError, EOFError, AttributeError, zipfile.BadZipFile):
            return None


class Cache:
    """A file of runs and verdicts, shared by the threads of a search, and by processes.

    Once the file fails it keeps nothing and knows nothing. Raises sqlite3.Error when it fails at once, and OSError
    when its folder cannot be made.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_root() / "plans" / "runs.sqlite"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._works = True
        self._file = sqlite3.connect(self.path, check_same_thread=False, timeout=PATIENCE_S, isolation_level=None)
        try:
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=OFF")
            self._file.execute("CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, used REAL, content BLOB)")
        except sqlite3.Error:
            self._file.close()
            raise

    def get(self, key: str) -> bytes | None:
        """What is kept under ``key``, None where nothing is."""
        with self._lock:
            rows = self._ask("SELECT content FROM runs WHERE key = ?", (key,))
            if rows:
                self._used[key] = time.time()
        return bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else None

    def put(self, key: str, content: bytes) -> None:
        """Keep ``content`` under ``key``."""
        with self._lock:
            self._ask("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (key, time.time(), content))

    def close(self) -> None:
        """Note what was used, drop what was used longest ago beyond the limit, and let go of the file."""
        with self._lock:
            self._ask("BEGIN IMMEDIATE")
            for key, used in self._used.items():
                self._ask("UPDATE runs SET used = ? WHERE key = ?", (used, key))
            total = 0
            for key, size in self._ask("SELECT key, length(content) FROM runs ORDER BY used DESC"):
                total += size or 0
                if total > MOST_BYTES:
                    self._ask("DELETE FROM runs WHERE key = ?", (key,))
            self._ask("COMMIT")
            if self.path.stat().st_size > 2 * MOST_BYTES:
                self._ask("VACUUM")
            self._file.close()

    def _ask(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows that ``statement`` gives; none from the first failure on."""
        if not self._works:
            return []
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error:
            self._works = False
            return []


def open_cache(path: Path | None = None) -> Cache | None:
    """The user's cache, or that of ``path``; begun anew when the file is broken, None where it cannot be used."""
    try:
        return Cache(path)
    except (OSError, sqlite3.OperationalError):
        return None
    except sqlite3.DatabaseError:
        return _anew(path or cache_root() / "plans" / "runs.sqlite")


def _anew(path: Path) -> Cache | None:
    try:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return Cache(path)
    except (OSError, sqlite3.Error):
        return None


def cacheable(deployment: Deployment) -> bool:
    """Whether equal keys mean equal runs: the key does not know the code of a policy of one's own."""
    return all(group.policy in POLICIES for group in deployment.groups)


def key_of(workload: Workload, deployment: Deployment, slo: Slo, roofline: CostModel | None) -> str:
    """A key for one run, equal only for equal runs; the SLO counts where it decides a split."""
    model = catalog.model(deployment.model)
    follows = any(group.split == "slo" and group.split_tbt_s is None for group in deployment.groups)
    parts = {
        "format": FORMAT,
        "code": CODE,
        "workload": workload.content_key(),
        "deployment": deployment_mapping(deployment),
        "cost": [_cost(group, deployment, model, roofline) for group in deployment.groups],
        "tiers": None if roofline is None else (roofline.host_bytes_per_s, roofline.disk_bytes_per_s),
        "split": (slo.tbt_s or slo.tpot_s) if follows else None,
    }
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _cost(group: Group, deployment: Deployment, model: Model, roofline: CostModel | None) -> str:
    """The content of the cost record of one replica."""
    member = Member(group, catalog.device(group.device or deployment.device or ""), 0)
    return cost_of(member, model, roofline).tobytes().hex()
