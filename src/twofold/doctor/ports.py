"""Whether the port that serve takes by default is free."""

import errno
import socket

from twofold.doctor.finding import Finding

HOST, PORT = "127.0.0.1", 8000


def port(number: int = PORT) -> Finding:
    """Whether somebody listens there, or it may not be taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, number))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            found = f"{number} is in use" if taken else f"{number} cannot be taken: {error.strerror}"
            return Finding("port", "limited", found, "choose another: serve --port, 0 for any that is free")
    return Finding("port", "ok", f"{HOST}:{number} is free")
