"""What is saved comes back, in the order that is promised."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from interpreter.models import ExecutionError, Limits
from interpreter.store import Store, WorkspaceRecord

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


async def test_a_session_comes_back_as_it_was_saved(store, record):
    saved = record(
        name="été",
        reason="out of memory",
        labels={"team": "ml"},
        limits=Limits(memory_mb=512, cpus=0.5),
        expires_at=NOON + timedelta(hours=1),
        handle={"pid": 4711, "paths": ["/a", None]},
        sandbox_id="box",
    )
    await store.save_session(saved)
    assert await store.session("s1") == saved
    assert await store.session("other") is None


async def test_sessions_are_listed_newest_first(store, record):
    for session_id, minutes in (("middle", 1), ("newest", 2), ("oldest", 0)):
        await store.save_session(record(session_id, created_at=NOON + timedelta(minutes=minutes)))
    assert [session.id for session in await store.sessions()] == ["newest", "middle", "oldest"]


async def test_saving_a_session_again_replaces_it_but_not_what_was_received(store, record, session):
    await store.set_received(session, 7)
    await store.save_session(record(state="busy"))
    assert [found.state for found in await store.sessions()] == ["busy"]
    assert await store.received(session) == 7


async def test_an_execution_comes_back_as_it_was_saved(store, execution, session):
    saved = execution(
        status="error",
        outputs=[{"output_type": "stream", "name": "stdout", "text": "\x00 \U0001f600"}],
        text="\x00 \U0001f600",
        error=ExecutionError(ename="ValueError", evalue="no", traceback=["a", "b"]),
        started_at=NOON,
        duration_ms=1.5,
    )
    await store.save_execution(saved)
    assert await store.execution(session, "e1") == saved
    assert await store.execution(session, "other") is None
    assert await store.execution("other", "e1") is None


async def test_an_execution_keeps_its_place_when_it_is_saved_again(store, execution, session):
    for execution_id in ("c", "a", "b"):
        await store.save_execution(execution(execution_id))
    await store.save_execution(execution("c", "ok"))
    assert [(found.id, found.status.value) for found in await store.executions(session)] == [
        ("c", "ok"),
        ("a", "queued"),
        ("b", "queued"),
    ]
    assert await store.count_executions(session) == 3


async def test_executions_can_be_paged(store, execution, session):
    for number in range(5):
        await store.save_execution(execution(f"e{number}"))
    first = await store.executions(session, limit=2)
    rest = await store.executions(session, after=first[-1].id)
    assert [found.id for found in first + rest] == ["e0", "e1", "e2", "e3", "e4"]
    assert await store.executions(session, after="e4") == []
    assert await store.executions(session, after="unknown") == []


async def test_unfinished_executions_are_those_queued_or_running(store, execution, session):
    for number, status in enumerate(("ok", "running", "lost", "queued", "cancelled")):
        await store.save_execution(execution(f"e{number}", status))
    assert [found.id for found in await store.unfinished(session)] == ["e1", "e3"]


async def test_a_display_is_remembered_once_for_each_execution(store, session):
    for display_id, execution_id in (("d", "e2"), ("d", "e1"), ("d", "e2"), ("other", "e1")):
        await store.save_display(session, display_id, execution_id)
    assert await store.displays(session, 10) == {"d": ["e2", "e1"], "other": ["e1"]}
    assert await store.displays(session, 2) == {"d": ["e1"], "other": ["e1"]}


async def test_the_audit_log_gives_the_last_entries_oldest_first(store):
    await store.audit("started", None, {"version": "1"})
    await store.audit("created", "s1", {"labels": {"a": "b"}})
    await store.audit("deleted", "s1", {})
    assert [entry.action for entry in await store.audit_log()] == ["started", "created", "deleted"]
    assert [entry.action for entry in await store.audit_log(limit=2)] == ["created", "deleted"]
    started, created = await store.audit_log(after=0, limit=2)
    assert await store.audit_log("s1", after=started.number, limit=1) == [created]
    assert [entry.action for entry in await store.audit_log(after=created.number)] == ["deleted"]
    assert created.session_id == "s1"
    assert created.detail == {"labels": {"a": "b"}}
    assert created.time.tzinfo is UTC


async def test_a_deleted_session_takes_all_but_the_audit_log_with_it(
    store, record, execution, event, session
):
    await store.save_session(record("other"))
    await store.append_events("other", [event(1)])
    await store.save_execution(execution())
    await store.append_events(session, [event(1)], received=3)
    await store.save_display(session, "d", "e1")
    await store.audit("created", session, {})

    await store.delete_session(session)

    assert await store.session(session) is None
    assert await store.executions(session) == []
    assert await store.events(session, 0) == []
    assert await store.displays(session, 10) == {}
    assert (await store.received(session), await store.last_seq(session)) == (0, 0)
    assert len(await store.audit_log(session)) == 1
    assert await store.events("other", 0) == [event(1)]


async def test_an_id_can_be_used_again_and_starts_empty(store, record, event, session):
    await store.append_events(session, [event(1)], received=3)
    store.delete_session(session)
    await store.save_session(record())
    assert await store.received(session) == 0
    assert await store.events(session, 0) == []
    await store.append_events(session, [event(1, b"new")])
    assert await store.events(session, 0) == [event(1, b"new")]


async def test_everything_is_there_when_the_file_is_opened_again(path, record, execution, event):
    store = await Store.open(path)
    store.save_session(record())
    store.save_execution(execution())
    store.append_events("s1", [event(1)], received=2)
    await store.close()

    store = await Store.open(path)
    assert await store.session("s1") == record()
    assert await store.executions("s1") == [execution()]
    assert await store.events("s1", 0) == [event(1)]
    assert await store.received("s1") == 2
    await store.close()


async def test_workspaces_come_back_as_they_were_saved_until_they_are_deleted(store):
    saved = [
        WorkspaceRecord(
            id=f"w-{n}",
            name=f"été {n}",
            owner="ann",
            disk_mb=16,
            disk_enforced_by="filesystem",
            created_at=NOON,
            last_used=NOON,
        )
        for n in range(3)
    ]
    for workspace in saved:
        await store.save_workspace(workspace)
    changed = msgspec.structs.replace(saved[1], owner="bob", bytes=5)
    await store.save_workspace(changed)
    assert await store.workspaces() == [saved[0], changed, saved[2]]
    await store.delete_workspace("w-1")
    assert await store.workspaces() == [saved[0], saved[2]]
