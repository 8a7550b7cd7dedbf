"""The folder in which the HTTP process and its worker meet.

It is locked for as long as its server lives, so the next server can tell what a killed one has left, and remove it.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import zmq

from twofold.errors import SpecError
from twofold.serve.errors import ServeError

PREFIX = "twofold-serve-"
SOCKET = "worker"
ATTEMPTS = 20


class Place:
    """A new folder that no other user can enter; ``address`` is that of the socket in it.

    SpecError when its path is too long for a socket, ServeError when it cannot be locked.
    """

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        remove_abandoned(parent)
        self._folder, self._lock = _new()
        path = self._folder / SOCKET
        self.address = f"ipc://{path}"
        if len(os.fsencode(path)) > zmq.IPC_PATH_MAX_LEN:
            self.close()
            raise SpecError("TMPDIR", str(parent), f"a socket needs a path of at most {zmq.IPC_PATH_MAX_LEN} bytes")

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(parent: Path) -> None:
    """Remove the folders in ``parent`` whose servers have ended without doing so."""
    for folder in parent.glob(f"{PREFIX}*"):
        lock = _locked(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _new() -> tuple[Path, int]:
    """A new folder and its lock. Another server may take it for abandoned before it is locked: then there is a next."""
    for _ in range(ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _locked(folder)
        if lock is not None:
            return folder, lock
    raise ServeError(f"no folder in {tempfile.gettempdir()} can be locked")


def _locked(folder: Path) -> int | None:
    """The descriptor that holds the lock of a folder; None when that of another does, or it is gone, or not ours."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists():
                return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
