"""Certificates for an engine and its users, made by openssl as Docker's handbook shows."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """Who an engine and a user both trust."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.certificate, self.key = folder / "ca.pem", folder / "ca-key.pem"
        _openssl(
            *(
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                f"/CN={folder.name}",
            ),
            *("-keyout", self.key, "-out", self.certificate),
        )

    def sign(self, folder: Path, purpose: str, names: str = "IP:127.0.0.1") -> Path:
        """`ca.pem`, `cert.pem` and `key.pem` in a folder; purpose is 'serverAuth' or 'clientAuth'."""
        folder.mkdir(parents=True)
        request, extensions = folder / "request", folder / "extensions"
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage={purpose}\n")
        _openssl(
            *("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={purpose}"),
            *("-keyout", folder / "key.pem", "-out", request),
        )
        _openssl(
            *("x509", "-req", "-days", "2", "-in", request, "-extfile", extensions),
            *("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial"),
            *("-out", folder / "cert.pem"),
        )
        (folder / "ca.pem").write_bytes(self.certificate.read_bytes())
        return folder


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
