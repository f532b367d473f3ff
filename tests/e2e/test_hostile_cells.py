"""Cells that try to get out, and what must come of each; meanwhile the gateway serves others as usual."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only

PRELUDE = """
import ctypes, errno, os, signal, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)

def refused(work, *codes):
    '''Whether something fails with an error of the operating system, of one of these kinds.'''
    try:
        work()
    except OSError as e:
        return not codes or errno.errorcode.get(e.errno) in codes
    return False

def write(path, data=b'1'):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)

def call(name, *arguments):
    ctypes.set_errno(0)
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
"""
UNREACHABLE = "'ENETUNREACH', 'EADDRNOTAVAIL', 'EHOSTUNREACH', 'EPERM'"

ATTEMPTS = {
    "reach an address": f"""
refused(lambda: socket.create_connection(('192.0.2.1', 80), timeout=3), {UNREACHABLE})""",
    "reach the metadata service": f"""
refused(lambda: socket.create_connection(('169.254.169.254', 80), timeout=3), {UNREACHABLE})""",
    "reach an address of IPv6": f"""
refused(lambda: socket.create_connection(('2001:db8::1', 80), timeout=3), {UNREACHABLE}, 'EAFNOSUPPORT')""",
    "send a datagram": f"""
refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53)), {UNREACHABLE})""",
    "resolve a name": """
refused(lambda: socket.getaddrinfo('host.example', 80))""",
    "have an interface": """
[name for _, name in socket.if_nameindex()] == ['lo']""",
    "open a raw socket": """
refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), 'EPERM', 'EPROTONOSUPPORT')""",
    "open a packet socket": """
refused(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW), 'EPERM', 'EAFNOSUPPORT')""",
    "mount a file system": """
refused(lambda: call('mount', b'none', b'/tmp', b'tmpfs', 0, None), 'EPERM', 'EACCES')""",
    "make the root writable": """
refused(lambda: call('mount', None, b'/', None, 32 | 4096, None), 'EPERM', 'EACCES')""",
    "become root": """
refused(lambda: os.setuid(0), 'EPERM', 'EINVAL') and os.getuid() == 1000 and os.geteuid() == 1000""",
    "become root by a program that may": """
import shutil
shutil.copy('/usr/bin/env', 'mine'); os.chmod('mine', 0o6755)
subprocess.run(['./mine', 'id', '-u'], capture_output=True, text=True).stdout.strip() == '1000'""",
    "have a capability": """
all(line.split()[1] == '0' * 16 for line in open('/proc/self/status') if line.startswith('Cap'))""",
    "gain privileges": """
'NoNewPrivs:\\t1' in open('/proc/self/status').read()""",
    "make a user namespace": """
subprocess.run(['unshare', '--user', 'true'], capture_output=True).returncode != 0""",
    "make a device": """
refused(lambda: os.mknod('disk', 0o600 | 0o060000, os.makedev(8, 0)), 'EPERM')""",
    "trace the first process": """
refused(lambda: call('ptrace', 16, 1, 0, 0), 'EPERM', 'EACCES')""",
    "read the first process's memory": """
refused(lambda: open('/proc/1/mem', 'rb')) and refused(lambda: open('/proc/1/environ').read())""",
    "use the first process's descriptors": """
refused(lambda: os.listdir('/proc/1/fd'))""",
    "kill the first process": """
[refused(lambda: os.kill(1, number)) for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP)] and os.path.exists('/proc/1')""",
    "see processes of others": """
set(open(f'/proc/{p}/status').read().split('Uid:')[1].split()[0] for p in os.listdir('/proc') if p.isdigit()) == {'1000'}""",
    "write to /proc": """
all(refused(lambda: write(path)) for path in
    ('/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sys/vm/drop_caches'))""",
    "write to /sys": """
refused(lambda: write('/sys/kernel/uevent_helper')) and refused(lambda: os.mkdir('/sys/fs/cgroup/mine'))""",
    "lower its place in line for memory": """
refused(lambda: write('/proc/self/oom_score_adj', b'-1000'))""",
    "write outside of its folders": """
all(refused(lambda: open(os.path.join(place, 'x'), 'w')) for place in
    ('/', '/usr', '/etc', '/opt', '/opt/interpreter', '/var', '/root', '/home', '/mnt', '/run', '/boot', sys.prefix))""",
    "link to a file outside": """
refused(lambda: os.link('/etc/passwd', 'passwd'))""",
    "open a million files": """
held = []
refused(lambda: [held.append(os.open('/dev/null', os.O_RDONLY)) for _ in range(1_000_000)], 'EMFILE') and [os.close(fd) for fd in held] and True""",
    "have Docker's socket": """
not os.path.exists('/var/run/docker.sock') and not os.path.exists('/run/docker.sock')""",
}


@pytest.fixture
def neighbour(http: httpx.Client) -> Iterator[str]:
    """Another session, which must not notice anything."""
    id = http.post("/v1/sessions").json()["id"]
    yield id
    http.delete(f"/v1/sessions/{id}")


def ask(http: httpx.Client, session: str, code: str = "6 * 7", **options: Any) -> dict[str, Any]:
    path = f"/v1/sessions/{session}/executions"
    return dict(http.post(path, json={"code": code, **options}).json())


def test_every_attempt_fails(http: httpx.Client, session: str, neighbour: str) -> None:
    ask(http, session, PRELUDE)
    got_away = {}
    for name, code in ATTEMPTS.items():
        result = ask(http, session, code)
        if result["text"] != "True":
            got_away[name] = result["text"] or result
        assert ask(http, neighbour)["text"] == "42", name
    assert got_away == {}
    assert ask(http, session)["text"] == "42"


def test_output_without_end_is_bounded_and_harms_nobody(
    http: httpx.Client, session: str, neighbour: str
) -> None:
    path = f"/v1/sessions/{session}/executions"
    body = {"code": "while True: print('x' * 100_000)", "timeout": 3, "wait": False}
    cell = http.post(path, json=body).json()["id"]
    for _ in range(5):
        assert ask(http, neighbour)["text"] == "42"
    result = http.get(f"{path}/{cell}", params={"wait": "true"}).json()
    assert result["status"] in ("timeout", "error")
    assert result["truncated"]["kept_bytes"] <= 4 * 1024 * 1024
    assert ask(http, session)["text"] == "42"


def test_links_in_a_workspace_lead_nowhere_when_it_is_removed(
    gateway: Gateway, http: httpx.Client, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("still here")
    id = http.post("/v1/sessions").json()["id"]
    code = (
        f"import os\nos.symlink({str(kept)!r}, 'folder'); os.symlink({str(kept / 'file')!r}, 'file')\n"
        "os.symlink('/', 'root'); os.makedirs('a/' * 500)\nsorted(os.listdir('.'))"
    )
    assert ask(http, id, code)["text"] == "['a', 'file', 'folder', 'root']"
    assert http.delete(f"/v1/sessions/{id}").status_code == 200
    assert (kept / "file").read_text() == "still here"
    assert not (gateway.data / "workspaces" / id).exists()


@only("docker", "docker-attach")
def test_nothing_of_the_link_is_left_in_a_container(http: httpx.Client, session: str) -> None:
    code = (
        "import os, stat\n"
        "folder = os.listdir('/run/interpreter') if os.path.isdir('/run/interpreter') else []\n"
        "sockets = [os.path.join(at, name) for top in ('/run', '/workspace', '/opt', '/var')\n"
        "    for at, _, names in os.walk(top) for name in names\n"
        "    if stat.S_ISSOCK(os.lstat(os.path.join(at, name)).st_mode)]\n"
        "(folder, sockets, [v for v in os.environ if 'KEY' in v], 'KEY' in open('/proc/self/environ').read())"
    )
    assert ask(http, session, code)["text"] == "([], [], [], False)"


@only("docker")
def test_a_container_is_what_it_is_said_to_be(engine: Any, http: httpx.Client, session: str) -> None:
    (found,) = engine.containers(filters={"label": f"org.interpreter.sandbox={session}"})
    container = engine.inspect_container(found["Id"])
    host = container["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert not container["NetworkSettings"]["Ports"]
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert not host["Privileged"]
    assert host["SecurityOpt"] == ["no-new-privileges"], "and so the engine's own seccomp profile"
    assert host["Memory"] == host["MemorySwap"] == 2048 * 1024 * 1024
    assert host["PidsLimit"] == 256
    assert container["Config"]["User"] == "1000:1000"
    writable = [m["Destination"] for m in container["Mounts"] if m["RW"]]
    assert writable == ["/workspace"]
    assert {m["Destination"] for m in container["Mounts"]} == {
        "/workspace",
        "/run/interpreter",
        "/data/input",
    }
    assert not any(os.path.realpath(m["Source"]).startswith("/var/run") for m in container["Mounts"])
