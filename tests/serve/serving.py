"""Serves until a signal: settings as JSON in the first argument; the address is the first line on standard output."""

import json
import sys

from twofold.serve.errors import ServeError
from twofold.serve.logs import write_logs_to
from twofold.serve.run import serve
from twofold.serve.settings import Settings, WorkerSettings

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    worker = WorkerSettings(**given.pop("worker"))
    command = tuple(given.pop("worker_command"))
    write_logs_to(sys.stderr, "info")
    try:
        settings = Settings(worker=worker, worker_command=command, keys=tuple(given.pop("keys", ())), **given)
        serve(settings, lambda address, service: print(address, flush=True))
    except ServeError as error:
        print(error, flush=True)
        sys.exit(1)
