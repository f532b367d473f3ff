"""Files with a name: they outlive sessions, one writes and many read, and nothing is lost or left."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.conftest import Gateway, kill_sandbox, only
from tests.e2e.named import Named, named
from tests.gateway.conftest import assert_refused
from tests.mounts import loop_devices_of, mounts_of, soon

WARM = pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
COLD_LIMITS = {"file_mb": 77}
"""What no sandbox that stands ready can have: such a session gets a new one."""


@pytest.fixture
def here(gateway: Gateway) -> Iterator[Named]:
    with named(gateway) as there:
        yield there


def session_for(here: Named, workspace: str, warm: bool, **settings: object) -> str:
    """A session in a sandbox that stood ready, or in a new one."""
    if warm:
        here.warm()
    else:
        settings["limits"] = COLD_LIMITS
    made = here.session(workspace, **settings)
    assert made["warm"] is warm, made["cold_because"]
    assert made["workspace"] == workspace
    assert made["limits"]["disk_mb"] == 64
    return str(made["id"])


@WARM
def test_files_outlive_the_sessions_that_made_them(here: Named, warm: bool) -> None:
    name = here.create()
    first = session_for(here, name, warm)
    assert here.run(first, "import os; os.getcwd(), os.listdir()") == "('/workspace', [])"
    here.run(first, "open('relative', 'w').write('1'); open('/workspace/absolute', 'w').write('2')")
    here.end(first)
    for warm_again in (True, False):
        again = session_for(here, name, warm_again)
        listed = here.run(again, "import os; sorted(os.listdir())")
        assert listed == "['absolute', 'relative']"
        assert here.run(again, "import os; os.stat('relative').st_uid == os.getuid()") == "True"
        assert here.run(
            again, "_ = open('relative', 'a').write('x'); open('relative').read()"
        ).startswith("'1")
        here.end(again)
    read = here.read(name)
    assert (read["in_use_by"], read["disk_mb"], read["owner"]) == ([], 64, "default")
    assert soon(lambda: 0 < (here.read(name)["bytes"] or 0) < 100_000)
    assert here.delete(name)["name"] == name


@WARM
def test_kernels_that_come_later_have_it_too(here: Named, warm: bool) -> None:
    name = here.create()
    id = session_for(here, name, warm)
    here.run(id, "open('made', 'w').close()")
    look = "import os; os.getcwd(), os.listdir(), os.path.exists('/workspace/made')"
    expected = "('/workspace', ['made'], True)"
    here.do(id, "restart")
    assert here.run(id, look) == expected
    here.client.post(f"/v1/sessions/{id}/contexts", json={"name": "other"})
    path = f"/v1/sessions/{id}/executions"
    assert here.client.post(path, json={"code": look, "context": "other"}).json()["text"] == expected
    inside = "import subprocess; subprocess.run(['ls'], capture_output=True).stdout"
    assert here.run(id, inside) == "b'made\\n'"
    here.end(id)
    variables = session_for(here, name, warm, env={"WHO": "me"})
    assert here.run(variables, "import os; os.environ['WHO'], os.listdir()") == "('me', ['made'])"
    here.end(variables)
    here.delete(name)


@WARM
def test_nothing_is_left_of_the_workspace_that_the_sandbox_was_made_with(
    here: Named, warm: bool
) -> None:
    """Also not by way of a process that had its working directory there."""
    name = here.create()
    id = session_for(here, name, warm)
    code = (
        "import os\nopen('mark', 'w').close()\nseen = set()\n"
        "for pid in filter(str.isdecimal, os.listdir('/proc')):\n"
        "    try: seen.add(os.readlink(f'/proc/{pid}/cwd') + str(os.listdir(f'/proc/{pid}/cwd') == ['mark']))\n"
        "    except OSError: pass\nprint(sorted(seen))"
    )
    assert here.run(id, code) in ("['/False', '/workspaceTrue']\n", "['/workspaceTrue']\n")
    here.end(id)
    here.delete(name)


def test_an_upload_that_takes_longer_than_its_session_has_the_workspace_is_refused(here: Named) -> None:
    name = here.create()
    first = here.session(name)["id"]

    def body() -> Iterator[bytes]:
        yield bytes(3_000_000)
        here.do(first, "stop")
        writers.append(here.session(name)["id"])
        here.run(writers[0], "open('f', 'w').write('the other one')")
        yield bytes(3_000_000)

    writers: list[str] = []
    with here.gateway.client() as client:
        late = client.put(f"/v1/sessions/{first}/files/f", content=body())
    assert_refused(late, "wrong_state", "does not have its workspace")
    assert here.run(writers[0], "open('f').read()") == "'the other one'"
    here.end(first, *writers)
    here.delete(name)


@WARM
def test_one_writes_and_many_read(here: Named, warm: bool) -> None:
    name = here.create()
    writer = session_for(here, name, warm)
    refused = here.ask(name)
    assert_refused(refused, "workspace_in_use", writer, "workspace_read_only")
    assert_refused(here.ask(name, wait=False), "workspace_in_use", writer)
    readers = [session_for(here, name, warm, workspace_read_only=True) for _ in range(2)]
    uses = {use["session_id"]: use["read_only"] for use in here.read(name)["in_use_by"]}
    assert uses == {writer: False, readers[0]: True, readers[1]: True}
    here.run(writer, "open('news', 'w').write('fresh')")
    for reader in readers:
        assert here.client.get(f"/v1/sessions/{reader}").json()["workspace_read_only"] is True
        assert here.run(reader, "open('news').read()") == "'fresh'"
        for attempt in (
            "open('news', 'w')",
            "open('/workspace/new', 'w')",
            "import os; os.remove('news')",
            "import os; os.chmod('news', 0o777)",
            "import os; os.utime('/workspace')",
        ):
            assert here.run(reader, attempt) == "OSError", attempt
        remount = "import os; os.system('mount -o remount,rw /workspace') != 0"
        assert here.run(reader, remount).endswith("True")
    assert here.run(writer, "open('news').read()") == "'fresh'"
    assert_refused(here.client.delete(f"/v1/workspaces/{name}"), "workspace_in_use", writer)
    here.end(writer)
    assert_refused(here.client.delete(f"/v1/workspaces/{name}"), "workspace_in_use", readers[0])
    next_one = session_for(here, name, warm)
    assert here.run(next_one, "_ = open('news', 'w').write('newer')") == ""
    assert here.run(readers[1], "open('news').read()") == "'newer'"
    here.end(next_one, *readers)
    here.delete(name)


def test_of_two_that_want_to_write_one_gets_it(here: Named) -> None:
    name = here.create()
    start = threading.Barrier(4)

    def ask(wait: bool) -> tuple[int, str]:
        start.wait()
        answer = here.ask(name, wait=wait)
        return answer.status_code, answer.json().get("id", "")

    for _ in range(3):
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(ask, [True, False, True, False]))
        (won,) = [id for status, id in answers if status in (201, 202)]
        assert [status for status, _ in answers].count(409) == 3
        assert here.run(won, "open('x', 'w').write('1')") == "1"
        here.end(won)
    here.delete(name)


def test_a_writer_that_stops_makes_room_and_may_not_come_back_meanwhile(here: Named) -> None:
    name = here.create()
    first = session_for(here, name, False)
    here.run(first, "open('kept', 'w').write('first')")
    here.do(first, "stop")
    second = session_for(here, name, False)
    answer = here.client.post(f"/v1/sessions/{first}/start")
    assert_refused(answer, "workspace_in_use", second)
    assert here.client.get(f"/v1/sessions/{first}").json()["state"] == "stopped"
    here.end(second)
    assert here.do(first, "start")["state"] == "ready"
    assert here.run(first, "open('kept').read()") == "'first'"
    here.do(first, "pause")
    assert_refused(here.ask(name), "workspace_in_use", first)
    assert here.run(first, "open('kept').read()") == "'first'"
    here.do(first, "stop")
    here.delete(name)
    assert_refused(here.client.post(f"/v1/sessions/{first}/start"), "workspace_not_found", name)
    other = here.create(name)
    assert_refused(here.client.post(f"/v1/sessions/{first}/start"), "workspace_not_found", "deleted")
    here.end(first)
    here.delete(other)


@WARM
def test_the_kernel_holds_a_session_to_the_size_of_its_workspace(here: Named, warm: bool) -> None:
    name = here.create(disk_mb=64)
    id = session_for(here, name, warm)
    fill = "with open('big', 'wb') as f:\n    for _ in range(100): f.write(b'x' * 2**20)"
    assert here.run(id, fill) == "OSError"
    assert 50 * 2**20 < (here.read(name)["bytes"] or 0) < 65 * 2**20
    assert here.run(id, "import os; os.remove('big'); 'goes on'") == "'goes on'"
    answer = here.client.patch(f"/v1/sessions/{id}", json={"limits": {"disk_mb": 128}})
    assert_refused(answer, "limit_fixed", name)
    answer = here.client.patch(f"/v1/workspaces/{name}", json={"disk_mb": 128})
    assert_refused(answer, "workspace_in_use", id)
    here.run(id, "open('kept', 'w').write('yes')")
    here.end(id)
    answer = here.client.patch(f"/v1/workspaces/{name}", json={"disk_mb": 128, "owner": "them"})
    assert (answer.json()["disk_mb"], answer.json()["owner"]) == (128, "them")
    assert_refused(
        here.client.patch(f"/v1/workspaces/{name}", json={"disk_mb": 32}), "limit_fixed", "128"
    )
    larger = here.session(name)
    assert larger["limits"]["disk_mb"] == 128
    assert here.run(larger["id"], fill) == ""
    assert here.run(larger["id"], "open('kept').read()") == "'yes'"
    here.end(larger["id"])
    here.delete(name)


def test_of_two_changes_at_once_none_is_lost(here: Named) -> None:
    name = here.create(disk_mb=32)
    for megabytes, owner in ((64, "ann"), (96, "bob"), (128, "eve")):
        with ThreadPoolExecutor(2) as threads:
            asked = [
                threads.submit(here.client.patch, f"/v1/workspaces/{name}", json=change)
                for change in ({"disk_mb": megabytes}, {"owner": owner})
            ]
            assert [answer.result().status_code for answer in asked] == [200, 200]
        assert (here.read(name)["disk_mb"], here.read(name)["owner"]) == (megabytes, owner)


def test_workspaces_are_listed_by_name_and_owner(here: Named) -> None:
    names = [here.create(owner=owner) for owner in ("ann", "bob", "ann")]
    everyone = here.client.get("/v1/workspaces").json()["workspaces"]
    assert {w["name"] for w in everyone} >= set(names)
    assert [w["name"] for w in everyone] == sorted(w["name"] for w in everyone)
    anns = here.client.get("/v1/workspaces", params={"owner": "ann"}).json()["workspaces"]
    assert {w["name"] for w in anns} == {names[0], names[2]}
    assert_refused(
        here.client.post("/v1/workspaces", json={"name": names[0]}), "workspace_exists", names[0]
    )
    for name in names:
        here.delete(name)
        assert_refused(here.client.get(f"/v1/workspaces/{name}"), "workspace_not_found", name)
        assert_refused(here.ask(name), "workspace_not_found", name)


def test_a_gateway_that_is_killed_finds_workspaces_and_their_users_again(own_gateway: Gateway) -> None:
    own_gateway.start()
    with named(own_gateway) as there:
        name = there.create()
        there.warm()
        warm = there.session(name)
        assert warm["warm"], warm["cold_because"]
        cold = there.session(name, workspace_read_only=True, limits=COLD_LIMITS)
        there.run(warm["id"], "x = 41; open('kept', 'w').write('yes')")
    for end in (own_gateway.kill, own_gateway.end):
        end()
        own_gateway.start()
        with named(own_gateway) as there:
            uses = {use["session_id"]: use["read_only"] for use in there.read(name)["in_use_by"]}
            assert uses == {warm["id"]: False, cold["id"]: True}
            assert_refused(there.ask(name), "workspace_in_use", warm["id"])
            assert there.run(warm["id"], "x + 1, open('kept').read()") == "(42, 'yes')"
            assert there.run(cold["id"], "open('kept').read()") == "'yes'"
            assert there.run(cold["id"], "open('new', 'w')") == "OSError"
    with named(own_gateway) as there:
        there.end(warm["id"], cold["id"])
        assert not [m for m in mounts_of(own_gateway.data) if warm["id"] in m or cold["id"] in m]
        assert soon(lambda: not [d for d in loop_devices_of(own_gateway.data) if warm["id"] in d])
        assert there.run(there.session(name)["id"], "open('kept').read()") == "'yes'"


def test_a_sandbox_that_dies_frees_its_workspace(own_gateway: Gateway) -> None:
    own_gateway.start()
    with named(own_gateway) as there:
        name = there.create()
        there.warm()
        first = there.session(name)
        assert first["warm"]
        there.run(first["id"], "open('kept', 'w').write('yes')")
        kill_sandbox(first["id"])
        assert soon(lambda: there.read(name)["in_use_by"] == [])
        second = there.session(name)
        there.run(second["id"], "open('kept', 'a').write('!')")
    own_gateway.kill()
    kill_sandbox(second["id"])
    own_gateway.start()
    with named(own_gateway) as there:
        assert soon(lambda: there.read(name)["in_use_by"] == [])
        third = there.session(name)["id"]
        assert there.run(third, "open('kept').read()") == "'yes!'"
        there.end(first["id"], second["id"], third)
        there.delete(name)


def test_a_gateway_that_is_killed_while_sessions_come_leaves_nothing(own_gateway: Gateway) -> None:
    """At any moment of a hand-over: what was mounted over a spare goes with it."""
    own_gateway.settings["spares"] = "2"
    own_gateway.start()
    with named(own_gateway) as there:
        name = there.create()
        keeper = there.session(name)["id"]
        there.run(keeper, "open('kept', 'w').write('yes')")
        there.end(keeper)
    for delay in (0.0, 0.002, 0.005, 0.008, 0.012, 0.02, 0.05):
        with named(own_gateway) as there:
            there.warm()
            asking = threading.Thread(target=lambda: _ask(there, name))
            asking.start()
            time.sleep(delay)
            own_gateway.kill()
            asking.join()
        own_gateway.start()
        with named(own_gateway) as there:
            ids = [s["id"] for s in there.client.get("/v1/sessions").json()["sessions"]]
            known = {use["session_id"] for use in there.read(name)["in_use_by"]}
            assert known <= set(ids)
            there.end(*ids)
            assert there.read(name)["in_use_by"] == []
            again = there.session(name)["id"]
            assert there.run(again, "open('kept').read()") == "'yes'"
            there.end(again)
    with named(own_gateway) as there:
        there.delete(name)
    own_gateway.end()
    assert mounts_of(own_gateway.data) == []
    assert soon(lambda: loop_devices_of(own_gateway.data) == [])
    assert list((own_gateway.data / "workspaces").iterdir()) == []


def _ask(there: Named, name: str) -> None:
    with contextlib.suppress(httpx.HTTPError):  # the gateway is killed
        there.ask(name)


@WARM
def test_sessions_and_workspaces_leave_nothing(own_gateway: Gateway, warm: bool) -> None:
    own_gateway.settings["spares"] = "1" if warm else "0"
    own_gateway.start()
    with named(own_gateway) as there:
        name = there.create()
        assert soon(lambda: loop_devices_of(own_gateway.data) == [] or warm)
        for read_only in (False, True):
            if warm:
                there.warm()
            made = there.session(name, workspace_read_only=read_only)
            assert made["warm"] is warm
            there.end(made["id"])
            assert not [m for m in mounts_of(own_gateway.data) if made["id"] in m]
            assert soon(lambda: not [m for m in mounts_of(own_gateway.data) if "/w-" in m])
            left = [path.name for path in (own_gateway.data / "workspaces").iterdir()]
            assert not [path for path in left if made["id"] in path]
        there.delete(name)
    own_gateway.end()
    assert mounts_of(own_gateway.data) == []
    assert soon(lambda: loop_devices_of(own_gateway.data) == [])
    assert list((own_gateway.data / "workspaces").iterdir()) == []


def test_a_workspace_that_is_known_is_not_swept_away(own_gateway: Gateway) -> None:
    own_gateway.settings["reconcile_seconds"] = "0.2"
    own_gateway.start()
    with named(own_gateway) as there:
        name = there.create()
        id = there.session(name)["id"]
        there.run(id, "open('kept', 'w').write('yes')")
        there.end(id)
        stray = own_gateway.data / "workspaces" / "w-nobodys"
        stray.mkdir()
        assert soon(lambda: not stray.exists())
        assert there.run(there.session(name)["id"], "open('kept').read()") == "'yes'"


@only("embedded")
def test_quotas_hold_an_owner_to_what_all_together_may_have(own_gateway: Gateway) -> None:
    own_gateway.settings |= {"owner_disk_mb": "200", "spares": "0"}
    own_gateway.start()
    with named(own_gateway) as there:
        first = there.create(owner="ann", disk_mb=100)
        answer = there.client.post(
            "/v1/workspaces", json={"name": "second", "owner": "ann", "disk_mb": 101}
        )
        assert_refused(answer, "owner_disk_full", "'ann' has 100 of 200 MB", "Delete workspaces")
        there.create("bobs", owner="bob", disk_mb=200)
        limits = {"disk_mb": 60}
        session = there.client.post("/v1/sessions", json={"owner": "ann", "limits": limits}).json()
        assert session["owner"] == "ann"
        for wait in (True, False):
            body = {"owner": "ann", "limits": limits, "wait": wait}
            assert_refused(there.client.post("/v1/sessions", json=body), "owner_disk_full", "160")
        assert there.session(first, owner="ann")["workspace"] == first, "which counts once"
        path = f"/v1/sessions/{session['id']}"
        answer = there.client.patch(path, json={"limits": {"disk_mb": 120}})
        assert_refused(answer, "owner_disk_full", "160")
        answer = there.client.patch("/v1/workspaces/bobs", json={"owner": "ann"})
        assert_refused(answer, "owner_disk_full", "200 MB more")
        with ThreadPoolExecutor(4) as threads:
            make = lambda n: there.client.post(  # noqa: E731
                "/v1/workspaces", json={"name": f"race-{n}", "owner": "ann", "disk_mb": 40}
            )
            assert sorted(a.status_code for a in threads.map(make, range(4))) == [201, 507, 507, 507]
        there.end(session["id"])
        there.create("third", owner="ann", disk_mb=60)
