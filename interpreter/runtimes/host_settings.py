"""What a build needs of this machine's settings to reach packages: index, certificates, proxy, mirror.

They are read from where pip and apt read them. Only what works from inside a build is taken: web
addresses, not folders of this machine.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

IN_BUILD = "/build"
"""Where the Dockerfiles put these files."""

PIP_LISTS = ("index-url", "extra-index-url", "find-links")
CERTIFICATE_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
CERTIFICATE_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
APT_OPTIONS = re.compile(r"Acquire::(https?::Proxy(::[^ ]+)?|Check-Valid-Until) ")


def files(environ: Mapping[str, str] = os.environ) -> dict[str, bytes]:
    """The files of the folder `host` in a build: pip.conf, apt.conf, certificates, apt sources."""
    found: dict[str, bytes] = {}
    pip = [f"{key} = {value}" for key, value in pip_settings(environ).items()]
    apt = apt_options()
    if bundle := certificates(environ):
        found["ca-certificates.crt"] = bundle.read_bytes()
        pip.append(f"cert = {IN_BUILD}/ca-certificates.crt")
        apt.append(f'Acquire::https::CaInfo "{IN_BUILD}/ca-certificates.crt";')
    found["pip.conf"] = _text(["[global]", *pip])
    found["apt.conf"] = _text(apt)
    for release, lines in apt_sources().items():
        found[f"{release}.list"] = _text(lines)
    return found


def proxies(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Proxy variables; Docker takes them as build arguments and does not record them."""
    names = [*PROXY_VARIABLES, *(name.upper() for name in PROXY_VARIABLES)]
    return {name: environ[name] for name in names if environ.get(name)}


def certificates(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The bundle of certificates that pip trusts here."""
    named = [environ.get(name) for name in CERTIFICATE_VARIABLES]
    named.insert(1, _pip_configuration(environ).get("cert"))
    for path in (*named, *CERTIFICATE_FILES):
        if path and Path(path).is_file():
            return Path(path)
    return None


def pip_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """pip's package indexes, as far as they are on the web, and the hosts it trusts."""
    configured = _pip_configuration(environ)
    settings = {}
    for key in (*PIP_LISTS, "trusted-host"):
        value = environ.get("PIP_" + key.upper().replace("-", "_")) or configured.get(key, "")
        kept = [word for word in value.split() if key == "trusted-host" or _on_the_web(word)]
        if kept:
            settings[key] = " ".join(kept)
    return settings


def _pip_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """The files that pip reads, later ones over earlier ones."""
    home = Path(environ.get("HOME") or "~").expanduser()
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    paths = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf"]
    paths += [user / "pip/pip.conf", Path(sys.prefix, "pip.conf")]
    if own := environ.get("PIP_CONFIG_FILE"):
        paths.append(Path(own))
        if own == os.devnull:
            return {}
    parser = configparser.RawConfigParser()
    for path in paths:
        try:
            parser.read(path)
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue
    found: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            found |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    return found


def apt_options() -> list[str]:
    """apt's proxy here, and whether it takes a mirror that lags behind."""
    if shutil.which("apt-config") is None:
        return []
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
    return [line for line in dump.splitlines() if APT_OPTIONS.match(line) and '""' not in line]


def apt_sources(etc: Path = Path("/etc/apt")) -> dict[str, list[str]]:
    """Debian's own archives as this machine finds them: release → lines of a sources.list."""
    found: dict[str, list[str]] = {}
    entries = [*_one_line_sources(etc), *_deb822_sources(etc)]
    for uri, suite, components, signed_by in entries:
        release, _, pocket = suite.partition("-")
        # A source signed by somebody else is not Debian's, whatever it is called.
        debian = not signed_by or "debian-archive" in signed_by
        if (
            debian
            and "main" in components
            and pocket in ("", "updates", "security")
            and _on_the_web(uri)
        ):
            found.setdefault(release, []).append(f"deb {uri} {suite} {' '.join(components)}")
    return found


_Source = tuple[str, str, list[str], str]
"""Address, suite, components, and the keyring if one is named."""


def _one_line_sources(etc: Path) -> Iterator[_Source]:
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]:
        for line in _read(path).splitlines():
            if match := re.match(r"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line.strip()):
                options, uri, suite, components = match.groups()
                signed_by = re.search(r"signed-by=(\S+)", options or "")
                yield uri, suite, components.split(), signed_by[1] if signed_by else ""


def _deb822_sources(etc: Path) -> Iterator[_Source]:
    for path in sorted((etc / "sources.list.d").glob("*.sources")):
        for paragraph in re.split(r"\n\s*\n", _read(path)):
            lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
            fields = dict(re.findall(r"^([\w-]+):((?:.*\n?)(?:[ \t].*\n?)*)", "\n".join(lines), re.M))
            words = {name.lower(): value.split() for name, value in fields.items()}
            if "deb" not in words.get("types", []) or words.get("enabled") == ["no"]:
                continue
            signed_by = " ".join(words.get("signed-by", []))
            for uri in words.get("uris", []):
                for suite in words.get("suites", []):
                    yield uri, suite, words.get("components", []), signed_by


def _on_the_web(address: str) -> bool:
    return urlsplit(address).scheme in ("http", "https")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
