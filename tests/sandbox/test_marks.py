"""Marks on real processes: who has one, who inherits it, and what is forgotten."""

from __future__ import annotations

import os
import subprocess

from interpreter.sandbox import proc
from interpreter.sandbox.marks import KEPT, Marks, Owner


def test_a_child_has_the_mark_that_its_parent_had_when_it_began() -> None:
    marks = Marks()
    script = "read x; sleep 600 & echo $!; read x; sleep 600 & echo $!; wait"
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", script], stdin=pipe, stdout=pipe, text=True) as shell:
        assert shell.stdin
        assert shell.stdout
        children = []
        for execution in ("e-1", "e-2"):
            marks.put(shell.pid, marks.new("k1", execution))
            shell.stdin.write("\n")
            shell.stdin.flush()
            children.append(int(shell.stdout.readline()))
        try:
            found = [proc.read(pid) for pid in children]
            owners = [marks.owner(marks.read(p.limit)) for p in found if p]
            assert owners == [Owner("k1", "e-1"), Owner("k1", "e-2")]
            below = {process.pid for process in proc.descendants(os.getpid())}
            assert {shell.pid, *children} <= below
            assert os.getppid() not in below
        finally:
            for process in filter(None, map(proc.read, children)):
                proc.send_signal(process, 9)
    assert not any(process and process.alive for process in map(proc.read, children))


def test_a_mark_of_another_sandbox_is_none_here() -> None:
    here, there = Marks(), Marks()
    number = here.new("k1", "e-1")
    there.new("k1", "e-1")
    with subprocess.Popen(["sleep", "600"]) as child:
        here.put(child.pid, number)
        process = proc.read(child.pid)
        child.kill()
    assert process
    assert (here.read(process.limit), there.read(process.limit)) == (number, None)
    for limit in (0, number, process.limit + 1, 2**64 - 1):
        assert here.read(limit) is None


def test_old_numbers_are_forgotten_unless_a_process_has_them_and_none_comes_again() -> None:
    marks = Marks()
    first = marks.new("k1", "e-first")
    numbers = {first}
    while not marks.full:
        numbers.add(marks.new("k1", "e-more"))
    marks.forget({first})
    assert not marks.full
    assert marks.owner(first) == Owner("k1", "e-first")
    assert marks.owner(first + 1) is None
    assert marks.numbers_of({"e-first"}) == {first}
    assert len(marks.numbers_of({"e-more"})) == KEPT
    assert marks.new("k1", "e-next") not in numbers


def test_a_signal_never_reaches_a_later_process_with_the_same_pid() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        process = proc.read(child.pid)
        assert process
        proc.send_signal(process._replace(started=process.started - 1), 9)
        assert child.poll() is None
        proc.send_signal(process, 15)
        assert child.wait(20) == -15
