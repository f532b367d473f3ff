"""Stands in for the kernel host: evaluates what a test sends and answers with JSON lines.

It does what the real one does first, setting its resource limits, and nothing else; so what a
test sends is in the place of hostile code.
"""

import contextlib
import ctypes
import json
import resource
import socket
import sys
import threading
import traceback


def limit(which: int, value: "int | None") -> None:
    if value is not None:
        resource.setrlimit(which, (value, value))


def serve(connection: socket.socket) -> None:
    with connection, connection.makefile("rw") as stream:
        for line in stream:
            names: dict[str, object] = {"told": told}
            try:
                exec(json.loads(line), names)
                answer = {"result": names.get("result")}
            except BaseException as e:
                with contextlib.suppress(OSError):
                    traceback.print_exc()
                answer = {"error": f"{type(e).__name__}: {e}"}
            stream.write(json.dumps(answer) + "\n")
            stream.flush()


told = json.loads(sys.argv[1])
limits = told["rlimits"]
limit(resource.RLIMIT_AS, limits["as_bytes"])
limit(resource.RLIMIT_NPROC, limits["processes"])
limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
limit(resource.RLIMIT_NOFILE, limits["open_files"])
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
listener = socket.socket(fileno=told["listen_fd"])
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
