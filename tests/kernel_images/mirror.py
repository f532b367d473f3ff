"""A package index of a company's own: on its own address, with a certificate nobody else knows."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
import zipfile
from functools import partial
from pathlib import Path

MATPLOTLIB = {
    "matplotlib/__init__.py": "",
    "matplotlib/pyplot.py": "# from the mirror\n",
    "matplotlib-0.0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: matplotlib\nVersion: 0.0.1\n",
    "matplotlib-0.0.1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "matplotlib-0.0.1.dist-info/RECORD": "",
}
"""All that the Dockerfile asks of its packages."""


class Mirror:
    """Serves one small package over HTTPS as long as its `with` block."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "certificate.pem"
        self._key = folder / "key.pem"
        self._files = folder / "files"
        wheels = self._files / "secret-index/matplotlib"
        wheels.mkdir(parents=True)
        with zipfile.ZipFile(wheels / "matplotlib-0.0.1-py3-none-any.whl", "w") as wheel:
            for name, text in MATPLOTLIB.items():
                wheel.writestr(name, text)
        self.asked: list[str] = []

    def __enter__(self) -> Mirror:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-subj", "/CN=A secret authority", "-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(self._key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(_Handler, self.asked, directory=str(self._files))
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self._key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}/secret-index"


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, asked: list[str], *args: object, **kwargs: object) -> None:
        self._asked = asked
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        self._asked.append(self.path)
