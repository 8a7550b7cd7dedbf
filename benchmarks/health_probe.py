"""Asks for /health every few milliseconds until standard input closes, and prints the times, in seconds, as JSON.

A process of its own, so that what loads the server does not slow the clock. Its argument is the host with the port.
"""

import http.client
import json
import select
import sys
import time

EVERY_S, ANSWER_WITHIN_S = 0.005, 300.0

if __name__ == "__main__":
    connection = http.client.HTTPConnection(sys.argv[1], timeout=ANSWER_WITHIN_S)
    times = []
    print("asking", flush=True)
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        began = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    print(json.dumps(times))
