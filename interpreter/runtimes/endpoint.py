"""Where the Docker engine is, decided as Docker's own command decides it.

`DOCKER_HOST` comes first, with `DOCKER_TLS_VERIFY`, `DOCKER_TLS` and `DOCKER_CERT_PATH`; then the
context that `DOCKER_CONTEXT` names, then the current one of `config.json`; then the usual socket.
A context is a file that says where, and a folder of certificates, both found by a hash of its name.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from docker.errors import TLSParameterError
from docker.tls import TLSConfig

from interpreter.errors import ConfigurationError

DEFAULT_HOST = "unix:///var/run/docker.sock"
SCHEMES = ("unix", "tcp", "ssh")
PORT, TLS_PORT = 2375, 2376


@dataclass(frozen=True)
class Tls:
    """How an engine shows who it is, and the gateway who it is; None is what the system has."""

    ca: str | None
    cert: str | None
    key: str | None
    verify: bool

    def for_sdk(self) -> TLSConfig:
        client = (self.cert, self.key) if self.cert or self.key else None
        return TLSConfig(client_cert=client, ca_cert=self.ca, verify=self.verify)

    def for_asyncio(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


@dataclass(frozen=True)
class Endpoint:
    """Where an engine is, and who said so."""

    host: str
    """`unix://`, `tcp://` with a port, or `ssh://`."""
    tls: Tls | None
    origin: str

    @property
    def local(self) -> bool:
        """Whether it is on this machine, as far as its address tells."""
        return self.host.startswith("unix://")


def endpoint(environ: Mapping[str, str] = os.environ) -> Endpoint:
    """The engine that a Docker user would expect. Raises ConfigurationError."""
    folder = _config_folder(environ)
    if host := environ.get("DOCKER_HOST"):
        return _checked(Endpoint(host, _tls_of_environment(environ, folder), "DOCKER_HOST"))
    if name := environ.get("DOCKER_CONTEXT"):
        origin = f"DOCKER_CONTEXT={name}"
    else:
        name = _current_context(folder)
        origin = f"the current context {name}"
    if name == "default":
        return Endpoint(DEFAULT_HOST, None, "the default")
    return _checked(_context(folder / "contexts", name, origin))


def _config_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME") or "~", ".docker")).expanduser()


def _tls_of_environment(environ: Mapping[str, str], folder: Path) -> Tls | None:
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    path = environ.get("DOCKER_CERT_PATH")
    if not (verify or path or environ.get("DOCKER_TLS")):
        return None
    return _tls(Path(path) if path else folder, verify)


def _tls(folder: Path, verify: bool) -> Tls:
    ca, cert, key = (
        str(file) if (file := folder / name).is_file() else None
        for name in ("ca.pem", "cert.pem", "key.pem")
    )
    return Tls(ca, cert, key, verify)


class _ConfigFile(msgspec.Struct):
    currentContext: str = "default"


def _current_context(folder: Path) -> str:
    try:
        file = msgspec.json.decode((folder / "config.json").read_bytes(), type=_ConfigFile)
    except FileNotFoundError:
        return "default"
    except (OSError, msgspec.MsgspecError) as e:
        raise ConfigurationError(f"{folder / 'config.json'} cannot be read: {e}.") from None
    return file.currentContext or "default"


class _DockerEndpoint(msgspec.Struct, rename="pascal"):
    host: str
    skip_tls_verify: bool = msgspec.field(default=False, name="SkipTLSVerify")


class _Endpoints(msgspec.Struct):
    docker: _DockerEndpoint


class _Meta(msgspec.Struct, rename="pascal"):
    endpoints: _Endpoints


def _context(folder: Path, name: str, origin: str) -> Endpoint:
    id = hashlib.sha256(name.encode()).hexdigest()
    try:
        meta = msgspec.json.decode((folder / "meta" / id / "meta.json").read_bytes(), type=_Meta)
    except FileNotFoundError:
        raise ConfigurationError(
            f"There is no Docker context '{name}' ({origin}).",
            "'docker context ls' shows those there are.",
        ) from None
    except (OSError, msgspec.MsgspecError) as e:
        raise ConfigurationError(f"The Docker context '{name}' cannot be read: {e}.") from None
    docker, certificates = meta.endpoints.docker, folder / "tls" / id / "docker"
    with_tls = docker.skip_tls_verify or certificates.is_dir()
    tls = _tls(certificates, not docker.skip_tls_verify) if with_tls else None
    return Endpoint(docker.host, tls, origin)


def _checked(found: Endpoint) -> Endpoint:
    """The same with a port, and without certificates where they have no use."""
    host = found.host if "://" in found.host else f"tcp://{found.host}"
    scheme, _, rest = host.partition("://")
    scheme = {"http": "tcp", "https": "tcp"}.get(scheme, scheme)
    if scheme not in SCHEMES or not rest:
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise ConfigurationError(
            f"{found.host} ({found.origin}) is no address of a Docker engine.",
            f"Addresses begin with one of {known}.",
        )
    if scheme != "tcp":
        return Endpoint(f"{scheme}://{rest}", None, found.origin)
    try:
        parts = urlsplit(f"tcp://{rest}")
        port = parts.port or (TLS_PORT if found.tls else PORT)
    except ValueError as e:
        raise ConfigurationError(f"{found.host} ({found.origin}) makes no sense: {e}.") from None
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    if found.tls is not None:
        _check_certificates(found.tls, found.origin)
    return Endpoint(f"tcp://{name}:{port}", found.tls, found.origin)


def _check_certificates(tls: Tls, origin: str) -> None:
    try:
        tls.for_sdk()
        tls.for_asyncio()
    except (TLSParameterError, OSError, ValueError) as e:
        files = ", ".join(file for file in (tls.ca, tls.cert, tls.key) if file) or "there are none"
        raise ConfigurationError(
            f"The certificates for the Docker engine ({origin}) cannot be used: {e} ({files}).",
            "It takes ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, or in the context.",
        ) from None
