"""What code in a bubblewrap sandbox cannot do."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from probing import Probe, StartProbe

from tests.read_only import CHANGES

WRITABLE = """
import os
result = []
for folder, folders, _ in os.walk("/"):
    if folder.startswith(("/proc", "/workspace", "/tmp", "/dev/shm")):
        folders.clear()
        continue
    if folder.count("/") > 3:
        folders.clear()
    path = os.path.join(folder, "written-by-a-test")
    try:
        open(path, "w").close()
    except OSError:
        continue
    result.append(path)
"""


@pytest.fixture
async def probe(start: StartProbe) -> Probe:
    return await start()


async def cannot_read(probe: Probe, path: str) -> bool:
    code = f"""
try:
    result = open({path!r}, 'rb').read().decode(errors='replace')
except OSError:
    result = None
"""
    return await probe.run(code) is None


async def test_it_sees_no_network_interface_but_loopback(probe: Probe) -> None:
    names = await probe.run("import socket; result = [name for _, name in socket.if_nameindex()]")
    assert names == ["lo"]


async def test_it_cannot_reach_a_listener_on_the_hosts_loopback(probe: Probe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; result = socket.socket().connect_ex(('127.0.0.1', {port}))"
        assert await probe.run(code) != 0
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_it_cannot_reach_an_abstract_socket_of_the_host(probe: Probe) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0a-test-of-the-interpreter")
        server.listen()
        code = (
            "import socket;"
            "result = socket.socket(socket.AF_UNIX).connect_ex('\\0a-test-of-the-interpreter')"
        )
        assert await probe.run(code) != 0


async def test_it_cannot_read_the_hosts_secrets(probe: Probe, tmp_path: Path) -> None:
    token = tmp_path / "data" / "token"
    token.write_text("secret")
    for path in (str(token), "/etc/shadow", "/etc/hostname", "/root/.bashrc"):
        assert await cannot_read(probe, path), path
    here = await probe.run(
        "import os; result = {p: os.path.exists(p) for p in ('/home', '/var', '/run')}"
    )
    assert not any(here.values())
    assert not await probe.run(f"import os; result = os.path.exists({str(tmp_path)!r})")


async def test_it_cannot_read_anothers_workspace(start: StartProbe) -> None:
    one, other = await start(), await start()
    await one.run("open('secret', 'w').write('mine')")
    assert (one.workspace / "secret").read_text() == "mine"
    assert await cannot_read(other, "/workspace/secret")
    assert await cannot_read(other, str(one.workspace / "secret"))


async def test_it_can_write_its_workspace_and_nothing_else_of_the_host(probe: Probe) -> None:
    assert await probe.run(WRITABLE) == []
    await probe.run("import os; os.makedirs('/workspace/a'); open('/workspace/a/b', 'w').write('here')")
    assert (probe.workspace / "a" / "b").read_text() == "here"
    await probe.run("import os; open(os.path.expanduser('~/x'), 'w'); open('/dev/shm/x', 'w')")


async def test_it_has_no_capability_and_can_gain_none(probe: Probe) -> None:
    status = await probe.run("result = open('/proc/self/status').read()")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert {int(fields[name], 16) for name in sets} == {0}
    assert fields["NoNewPrivs"] == "1"
    assert fields["Uid"].split() == ["1000"] * 4


async def test_it_is_not_root_to_the_host(probe: Probe) -> None:
    await probe.run("open('made', 'w')")
    made = (probe.workspace / "made").stat()
    assert made.st_uid != 0
    assert made.st_gid != 0


async def test_two_sandboxes_of_a_root_gateway_are_two_users(start: StartProbe) -> None:
    one, other = await start(), await start()
    owners = {p.workspace.stat().st_uid for p in (one, other)}
    assert len(owners) == (2 if os.geteuid() == 0 else 1)


async def test_it_cannot_make_a_user_namespace(probe: Probe) -> None:
    code = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
result = [libc.unshare(0x10000000), ctypes.get_errno()]
"""
    returned, _ = await probe.run(code)
    assert returned == -1


async def test_it_sees_no_process_of_the_host(probe: Probe) -> None:
    code = """
import os
pids = [p for p in os.listdir('/proc') if p.isdigit()]
result = [open(f'/proc/{p}/cmdline').read().split('\\0')[0] for p in pids]
"""
    commands = await probe.run(code)
    assert [Path(c).name for c in commands] == ["python"]


async def test_it_cannot_see_or_replace_the_socket_it_is_reached_by(probe: Probe) -> None:
    run = probe.sandbox.handle["run"]
    code = f"""
import os, socket
listener = socket.socket(fileno=os.dup(told['listen_fd']))
name = listener.getsockname()
result = [os.path.exists({run!r}), os.path.exists(name), name]
"""
    run_seen, link_seen, name = await probe.run(code)
    assert not run_seen
    assert not link_seen
    assert not Path(name).is_relative_to(run)


async def test_its_environment_has_nothing_of_the_gateways(
    start: StartProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERPRETER_TOKEN", "secret")
    probe = await start()
    everything = "import glob; result = [open(p).read() for p in glob.glob('/proc/[0-9]*/environ')]"
    found = "".join(await probe.run(everything))
    assert "PYTHONPATH" in found
    assert "TOKEN" not in found


async def test_it_cannot_read_where_things_are_on_the_host(probe: Probe, tmp_path: Path) -> None:
    code = "import glob; result = [open(p).read() for p in glob.glob('/proc/[0-9]*/cmdline')]"
    assert str(tmp_path) not in "".join(await probe.run(code))


async def test_it_inherits_no_descriptor_but_its_own(probe: Probe) -> None:
    code = """
import os
result = {}
for fd in os.listdir('/proc/self/fd'):
    try:
        result[fd] = os.readlink(f'/proc/self/fd/{fd}')
    except OSError:
        pass
"""
    found = await probe.run(code)
    files = [target for target in found.values() if target.startswith("/")]
    log = str(Path(probe.sandbox.handle["run"], "log"))
    assert set(files) <= {"/dev/null", log}
    # The listener, and the connection that asks.
    assert sum(target.startswith("socket:") for target in found.values()) <= 3


async def test_it_sees_its_inputs_also_later_ones_and_cannot_change_them(
    start: StartProbe, tmp_path: Path
) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    inputs.chmod(0o755)
    probe = await start(inputs=inputs)
    assert await probe.run("import os; result = os.listdir('/data/input')") == []
    (inputs / "numbers" / "sub").mkdir(parents=True)
    file = inputs / "numbers" / "sub" / "b.csv"
    file.write_text("deep")
    file.chmod(0o444)
    assert await probe.run("result = open('/data/input/numbers/sub/b.csv').read()") == "deep"
    assert await probe.run(CHANGES + "\nresult = managed") == []
    assert file.read_text() == "deep"
    assert file.stat().st_mode & 0o777 == 0o444
    assert file.stat().st_nlink == 1
