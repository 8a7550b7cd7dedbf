"""The files in which Numba keeps machine code, made safe for processes that share them and for files that broke.

Numba takes the name of a new data file from an index that it has read before, so that of two processes that save at
once one may be forgotten, or both may take one name and a third then run the code of one function as the other. It
also believes whatever it reads. Here a lock goes around each save, and a checksum stands at the end of each file.
"""

import contextlib
import hashlib
import io
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numba
from numba.core import caching

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
DIGEST_BYTES = hashlib.sha256().digest_size
ADVICE = "it is compiled anew in each process; TWOFOLD_CACHE_DIR names a folder that can be written"

logger = logging.getLogger("twofold")
_decorating = threading.RLock()
_told: set[str] = set()


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """What Numba decorates with ``cache=True`` in the block has its machine code kept in ``folder``."""
    with _decorating:
        before = numba.config.CACHE_DIR, caching.IndexDataCacheFile
        numba.config.CACHE_DIR, caching.IndexDataCacheFile = str(folder), SharedFiles
        try:
            yield
        finally:
            numba.config.CACHE_DIR, caching.IndexDataCacheFile = before


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """No other process or thread is in such a block for ``folder``; no bar where the system lacks these locks."""
    if fcntl is None:
        yield
        return
    with (folder / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tell_unkept(folder: Path, error: OSError) -> None:
    """Warn, once a process and folder, that compiled code could not be kept in ``folder``."""
    if str(folder) not in _told:
        _told.add(str(folder))
        logger.warning("twofold: no compiled code can be kept in %s (%s): %s", folder, error.strerror or error, ADVICE)


def is_whole(path: str | Path) -> bool:
    """Whether a file is there and ends in the checksum of the rest."""
    try:
        written = Path(path).read_bytes()
    except OSError:
        return False
    return _digest(written[:-DIGEST_BYTES]) == written[-DIGEST_BYTES:]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


class SharedFiles(caching.IndexDataCacheFile):  # type: ignore[misc]
    """The index and the data files of one function. A broken one counts as none, and code is then compiled again."""

    def save(self, key: Any, data: Any) -> None:
        """Keep ``data`` under ``key``; a warning where the folder takes no more."""
        folder = Path(self._cache_path)
        try:
            with locked(folder):
                super().save(key, data)
        except OSError as error:
            tell_unkept(folder, error)

    def _load_index(self) -> dict[Any, str]:
        return super()._load_index() if is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        if not is_whole(path):
            raise FileNotFoundError(path)
        return super()._load_data(name)

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[IO[bytes]]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + _digest(content.getvalue()))
