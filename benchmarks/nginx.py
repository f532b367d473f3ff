"""nginx as a server of files: one worker, PUT allowed, everything in a folder of its own, which is a
plain one, or a file system of fixed size such as a session's workspace is."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.gateway import stop
from benchmarks.plain_http import Address
from interpreter.workspace.image import Image, usable

NAME = "nginx"
START_SECONDS = 20.0
SETTINGS = """
daemon off;
{user}
pid {folder}/pid;
error_log {folder}/error.log;
worker_processes 1;
events {{}}
http {{
    access_log off;
    sendfile on;
    tcp_nodelay on;
    client_max_body_size 0;
    client_body_temp_path {files}/body;
    proxy_temp_path {folder}/t1;
    fastcgi_temp_path {folder}/t2;
    uwsgi_temp_path {folder}/t3;
    scgi_temp_path {folder}/t4;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            root {files};
            dav_methods PUT;
            create_full_put_path on;
        }}
    }}
}}
"""


@contextmanager
def running(megabytes: int | None = None) -> Iterator[Address]:
    """With `megabytes` its files are in an image of that size, where workspaces are that, too."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        raise RuntimeError("nginx is not installed; 'sh benchmarks/packages' installs it")
    with (
        tempfile.TemporaryDirectory(prefix="interpreter-bench-") as folder,
        _files(Path(folder), megabytes) as files,
    ):
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = Path(folder, "nginx.conf")
        # Its worker may write there, whoever runs this.
        user = "user root;" if os.geteuid() == 0 else ""
        settings.write_text(SETTINGS.format(folder=folder, files=files, port=port, user=user))
        process = subprocess.Popen(
            [program, "-c", str(settings), "-p", folder, "-e", f"{folder}/error.log"]
        )
        try:
            _wait_for(port, process)
            yield Address(f"http://127.0.0.1:{port}")
        finally:
            stop(process)


@contextmanager
def _files(folder: Path, megabytes: int | None) -> Iterator[Path]:
    files, image = folder / "files", Image(folder / "files.img", folder / "files")
    if megabytes is None or usable(Image(folder / "trial.img", folder / "trial")) is not None:
        files.mkdir()
        yield files
        return
    image.make(megabytes)
    try:
        yield files
    finally:
        image.remove()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("nginx does not start")
