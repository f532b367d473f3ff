"""The engine is found where a Docker user would expect it: DOCKER_HOST, TLS, contexts, SSH."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from tests.conftest import Gateway
from tests.engines.certificates import Authority
from tests.engines.conftest import MakeGateway, new_session, refusal, run
from tests.engines.own_engine import OwnEngine
from tests.engines.ssh import SshServer
from tests.mounts import soon


@dataclass
class Reachable:
    """An engine with a unix socket, and a port that takes only those with a certificate."""

    engine: OwnEngine
    tcp: str
    authority: Authority
    user: Path
    """The certificates of somebody who may."""


@pytest.fixture(scope="module")
def reachable(engine: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reachable]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder / "authority")
    server = authority.sign(folder / "server", "serverAuth")
    with socket.create_server(("127.0.0.1", 0)) as port:
        flags = ["--tlsverify", "--tlscacert", f"{server}/ca.pem"]
        flags += ["--tlscert", f"{server}/cert.pem", "--tlskey", f"{server}/key.pem"]
        own = OwnEngine(*flags, tcp=port)
        try:
            own.start().have_image_of(engine)
            tcp = f"tcp://127.0.0.1:{port.getsockname()[1]}"
            yield Reachable(own, tcp, authority, authority.sign(folder / "user", "clientAuth"))
        finally:
            own.close()


def works(gateway: Gateway, where: str) -> None:
    """Starts it, sees that it found the engine, and runs cells in a session."""
    gateway.start()
    assert f"at {where})" in gateway.log.read_text()
    with gateway.client() as client:
        session = new_session(client)["id"]
        assert run(client, session, "x = 20")["status"] == "ok"
        assert run(client, session, "x + 1")["text"] == "21"
        usage = client.get(f"/v1/sessions/{session}").json()["usage"]
        assert usage["memory_bytes"] > 0


def write_context(folder: Path, name: str, host: str, certificates: Path | None = None) -> None:
    """As `docker context create` writes it."""
    id = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / id
    meta.mkdir(parents=True)
    endpoint = {"Host": host, "SkipTLSVerify": False}
    (meta / "meta.json").write_text(
        json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}})
    )
    if certificates is not None:
        tls = folder / "contexts" / "tls" / id / "docker"
        tls.mkdir(parents=True)
        for file in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(certificates / file, tls)


@pytest.mark.parametrize("link", ["auto", "attach"])
def test_an_engine_is_reached_by_tcp_with_tls(
    reachable: Reachable, make_gateway: MakeGateway, link: str
) -> None:
    environ = {"DOCKER_HOST": reachable.tcp, "DOCKER_TLS_VERIFY": "1"}
    gateway = make_gateway({**environ, "DOCKER_CERT_PATH": str(reachable.user)}, link=link)
    works(gateway, reachable.tcp)


def test_a_certificate_that_the_engine_does_not_trust_is_an_error_at_start(
    reachable: Reachable, make_gateway: MakeGateway, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger").sign(tmp_path / "user", "clientAuth")
    shutil.copy(reachable.user / "ca.pem", stranger)
    environ = {"DOCKER_HOST": reachable.tcp, "DOCKER_TLS_VERIFY": "1"}
    said = refusal(make_gateway({**environ, "DOCKER_CERT_PATH": str(stranger)}))
    assert "the engine does not accept the gateway's certificate" in said
    assert reachable.tcp in said


def test_an_engine_that_is_not_who_it_should_be_is_an_error_at_start(
    reachable: Reachable, make_gateway: MakeGateway, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other").sign(tmp_path / "user", "clientAuth")
    environ = {"DOCKER_HOST": reachable.tcp, "DOCKER_TLS_VERIFY": "1"}
    said = refusal(make_gateway({**environ, "DOCKER_CERT_PATH": str(other)}))
    assert "the engine's certificate is not trusted" in said


def test_certificates_that_are_missing_or_broken_are_an_error_at_start(
    reachable: Reachable, make_gateway: MakeGateway, tmp_path: Path
) -> None:
    environ = {"DOCKER_HOST": reachable.tcp, "DOCKER_TLS_VERIFY": "1"}
    said = refusal(make_gateway({**environ, "DOCKER_CERT_PATH": str(tmp_path)}))
    assert "the engine's certificate is not trusted" in said
    (tmp_path / "ca.pem").write_text("this is no certificate")
    said = refusal(make_gateway({**environ, "DOCKER_CERT_PATH": str(tmp_path)}))
    assert "certificates for the Docker engine (DOCKER_HOST) cannot be used" in said


def test_a_context_with_tls_is_used(
    reachable: Reachable, make_gateway: MakeGateway, tmp_path: Path
) -> None:
    write_context(tmp_path, "far", reachable.tcp, reachable.user)
    # There is no config.json: Docker's own command needs none either.
    works(make_gateway({"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "far"}), reachable.tcp)


def test_the_current_context_is_used_unless_something_else_is_said(
    reachable: Reachable, make_gateway: MakeGateway, tmp_path: Path
) -> None:
    write_context(tmp_path, "near", reachable.engine.host)
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "near", "auths": {}}))
    works(make_gateway({"DOCKER_CONFIG": str(tmp_path)}), reachable.engine.host)
    said = refusal(make_gateway({"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "gone"}))
    assert "There is no Docker context 'gone' (DOCKER_CONTEXT=gone)" in said
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "lost"}))
    said = refusal(make_gateway({"DOCKER_CONFIG": str(tmp_path)}))
    assert "There is no Docker context 'lost' (the current context lost)" in said
    nowhere = f"unix://{tmp_path}/nothing.sock"
    said = refusal(make_gateway({"DOCKER_CONFIG": str(tmp_path), "DOCKER_HOST": nowhere}))
    assert f"No Docker engine answers at {nowhere} (DOCKER_HOST): nothing listens there" in said


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshServer]:
    server = SshServer(tmp_path)
    server.start()
    yield server
    server.stop()


def test_an_engine_is_reached_by_ssh_also_when_the_connection_breaks(
    reachable: Reachable, make_gateway: MakeGateway, ssh: SshServer
) -> None:
    address = ssh.address(reachable.engine.socket)
    gateway = make_gateway({"DOCKER_HOST": address, "PATH": ssh.path}, link="attach")
    works(gateway, address)
    with gateway.client() as client:
        session = new_session(client)["id"]
        run(client, session, "x = 1")
        ssh.drop_connections()
        assert run(client, session, "x + 1")["text"] == "2"
        assert soon(lambda: client.post("/v1/sessions").status_code == 201)


def test_a_machine_that_ssh_does_not_get_to_is_an_error_at_start(
    reachable: Reachable, make_gateway: MakeGateway, ssh: SshServer
) -> None:
    ssh.stop()
    address = ssh.address(reachable.engine.socket)
    said = refusal(make_gateway({"DOCKER_HOST": address, "PATH": ssh.path}))
    assert f"cannot be reached by SSH at {address}" in said
    assert "Connection refused" in said
    ssh.start()
    said = refusal(make_gateway({"DOCKER_HOST": ssh.address(Path("/nothing")), "PATH": ssh.path}))
    assert "No Docker engine answers" in said
    (ssh.folder / "authorized").unlink()
    said = refusal(make_gateway({"DOCKER_HOST": address, "PATH": ssh.path}))
    assert "Permission denied" in said


def test_what_is_no_address_is_an_error_at_start(make_gateway: MakeGateway) -> None:
    said = refusal(make_gateway({"DOCKER_HOST": "ftp://somewhere"}))
    assert "ftp://somewhere (DOCKER_HOST) is no address of a Docker engine" in said
