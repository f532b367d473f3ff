"""What a build is given of this machine's settings: only what works inside a build."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from interpreter.runtimes import build_context, host_settings


def test_pips_indexes_come_from_its_files_and_variables(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://files.example/simple\nfind-links = /srv/wheels\n"
        "extra-index-url =\n    https://one.example/\n    file:///srv/simple\n    https://two.example/\n"
    )
    environ = {"HOME": str(tmp_path), "PIP_INDEX_URL": "https://variable.example/100%25"}
    assert host_settings.pip_settings(environ) == {
        "index-url": "https://variable.example/100%25",
        "extra-index-url": "https://one.example/ https://two.example/",
    }
    assert host_settings.pip_settings({"HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}) == {}


def test_certificates_are_those_that_pip_trusts(tmp_path: Path) -> None:
    bundle, other = tmp_path / "bundle.pem", tmp_path / "other.pem"
    bundle.write_text("certificate\n")
    other.write_text("other\n")
    environ = {"SSL_CERT_FILE": str(other), "PIP_CERT": str(bundle), "PIP_CONFIG_FILE": "/dev/null"}
    assert host_settings.certificates(environ) == bundle
    files = host_settings.files(environ)
    assert files["ca-certificates.crt"] == b"certificate\n"
    assert b"cert = /build/ca-certificates.crt\n" in files["pip.conf"]


def test_proxies_are_those_of_the_environment() -> None:
    environ = {"http_proxy": "http://p:1", "HTTPS_PROXY": "http://p:2", "no_proxy": "", "OTHER": "x"}
    assert host_settings.proxies(environ) == {"http_proxy": "http://p:1", "HTTPS_PROXY": "http://p:2"}


def test_only_debians_own_archives_are_taken_from_apt(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://commented.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/usr/share/keyrings/other.gpg] https://other.example bookworm main\n"
        "deb cdrom:[Debian]/ bookworm main\n"
        "deb https://tool.example/apt tool-bookworm main\n"
        "deb https://engine.example/debian bookworm stable\n"
        "deb http://mirror.example/debian trixie main contrib # comment\n"
    )
    (tmp_path / "sources.list.d/debian.sources").write_text(
        "Types: deb deb-src\n# a comment\nURIs: https://mirror.example/debian\n"
        "Suites: bookworm bookworm-updates\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        "Types: deb\nEnabled: no\nURIs: https://off.example/debian\nSuites: bookworm\nComponents: main\n"
    )
    assert host_settings.apt_sources(tmp_path) == {
        "bookworm": [
            "deb https://mirror.example/debian bookworm main",
            "deb https://mirror.example/debian bookworm-updates main",
        ],
        "trixie": ["deb http://mirror.example/debian trixie main contrib"],
    }


def test_the_same_files_are_packed_into_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "Dockerfile").chmod(0o600)
    with build_context.pack(tmp_path, {"pip.conf": b"x"}) as first:
        one = first.read()
    (tmp_path / "Dockerfile").touch()
    with build_context.pack(tmp_path, {"pip.conf": b"x"}) as second:
        assert second.read() == one
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        assert tar.getnames() == ["Dockerfile", "host/pip.conf"]
