"""A hostile image: its kernel host is honest until a cell says so, and then sends what it likes.

The link of a real container carries bytes that an honest end would not send. The session fails and
says why; nobody else notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from interpreter.link.frames import Kind, encode, join_parts
from interpreter.link.wire import WINDOW
from tests import user_images
from tests.conftest import Gateway
from tests.environments import Cells, configured, session
from tests.link.forged import hello
from tests.mounts import soon

DOCKERFILE = """
FROM interpreter/python
COPY liar.pth liar.py /opt/kernel/lib/python3.11/site-packages/
"""
LIAR = """
import os, sys, time

def write(connection, data):
    if os.path.exists('/workspace/lie'):
        with open('/workspace/lie', 'rb') as lie:
            data = memoryview(lie.read())
        if data == b'nothing any more':
            time.sleep(1000)
        os.set_blocking(connection.write_fd, True)
        while data:
            data = data[os.write(connection.write_fd, data):]
    return honest(connection, data)

if 'interpreter.sandbox' in sys.orig_argv:
    from interpreter.sandbox import doors
    honest, doors.Connection.write = doors.Connection.write, write
    if 'at_once' in sys.orig_argv[-1]:
        doors.Connection.write = lambda connection, data: honest(
            connection, memoryview(connection.key + b'SSH-2.0-' * 9))
"""
SETTINGS = """
[environments.hostile]
image = "{image}"
[environments.hostile-at-once]
image = "{image}"
preload = ["at_once"]
"""
BROKEN = "the sandbox broke the rules of the link: "
LIES = {
    "garbage": (b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n" * 50, "over the limit"),
    "no kind of frame": (bytes(1000), "there is no frame kind 0"),
    "a frame that is too long": (b"\xff" * 17, "over the limit"),
    "a stream of its own": (encode(Kind.OPEN, 7, 1, b"{}"), "only the gateway opens"),
    "a stream that is not there": (encode(Kind.DATA, 999, 1, join_parts([])), "no stream 999"),
    "a message from the future": (encode(Kind.DATA, 1, 2**60, join_parts([])), "came after message"),
    "more credit than there is": (encode(Kind.CREDIT, 1, WINDOW + 1), "more credit"),
    "thanks for what was never sent": (encode(Kind.ACK, 0, 2**60), "never sent"),
    "a second greeting": (hello(), "a second HELLO"),
}
BY_ATTACHING = ("garbage", "a stream of its own")
"""What arrives is the same by either link; of the second one enough to see that."""
CASES = [("socket", lie) for lie in LIES] + [("attach", lie) for lie in BY_ATTACHING]


@pytest.fixture(scope="module")
def image(engine: docker.APIClient) -> str:
    files = {"liar.py": LIAR, "liar.pth": "import liar\n"}
    return user_images.build(engine, "hostile", DOCKERFILE, **files)


@pytest.fixture(scope="module")
def gateways(image: str, data_root: Path) -> Iterator[dict[str, Gateway]]:
    settings = SETTINGS.format(image=image)
    with (
        configured(data_root, settings, link="socket") as socket,
        configured(data_root, settings, link="attach") as attach,
    ):
        yield {"socket": socket, "attach": attach}


@pytest.fixture(scope="module")
def neighbours(gateways: dict[str, Gateway]) -> Iterator[dict[str, Cells]]:
    with (
        session(gateways["socket"], "python") as socket,
        session(gateways["attach"], "python") as attach,
    ):
        yield {"socket": socket, "attach": attach}


def telling(lie: str) -> str:
    """A cell after which its kernel host sends this, given as an expression, whenever it sends anything."""
    return (
        f"import os\nwith open('lie.new', 'wb') as file: file.write({lie})\nos.rename('lie.new', 'lie')"
    )


@pytest.mark.parametrize(("link", "lie"), CASES)
def test_a_lie_on_the_link_fails_its_session_and_no_other(
    engine: docker.APIClient,
    gateways: dict[str, Gateway],
    neighbours: dict[str, Cells],
    link: str,
    lie: str,
) -> None:
    sent, problem = LIES[lie]
    neighbour = neighbours[link]
    with session(gateways[link], "hostile") as cells:
        assert cells.text("6 * 7") == "42"
        id = cells.run(telling(repr(sent)), wait=False)["id"]
        assert neighbour.text("6 * 7") == "42"
        path = f"{cells.path}/executions/{id}"
        result = cells.client.get(path, params={"wait": "true"}).json()
        told = cells.look()
        label = f"org.interpreter.sandbox={cells.created['id']}"
        assert soon(lambda: engine.containers(all=True, filters={"label": label}) == [])
    assert (result["status"], told["state"]) == ("lost", "failed")
    assert told["reason"].startswith(BROKEN)
    assert problem in told["reason"]
    assert result["reason"] == told["reason"]
    assert neighbour.text("6 * 7") == "42"


def test_a_kernel_host_that_says_nothing_any_more_is_given_up(
    gateways: dict[str, Gateway], neighbours: dict[str, Cells]
) -> None:
    with session(gateways["socket"], "hostile") as cells:
        assert cells.text("6 * 7") == "42"
        result = cells.run(telling(repr(b"nothing any more")), timeout=1)
        told = cells.look()
        assert neighbours["socket"].text("6 * 7") == "42"
    assert (result["status"], told["state"]) == ("timeout", "failed")
    assert told["reason"].startswith("the sandbox does not answer")
    assert told["reason"] in result["reason"]


@pytest.mark.parametrize("link", ["socket", "attach"])
def test_a_message_without_end_fills_no_memory_and_delays_nobody(
    gateways: dict[str, Gateway], neighbours: dict[str, Cells], link: str
) -> None:
    part = encode(Kind.PART, 1, 0, bytes(1000))
    with session(gateways[link], "hostile") as cells:
        cells.run(telling(f"{part!r} * 200_000"), wait=False)
        for _ in range(20):
            assert neighbours[link].text("6 * 7") == "42"
            assert gateways[link].memory() < 400_000_000


@pytest.mark.parametrize("link", ["socket", "attach"])
def test_a_container_that_greets_with_garbage_is_no_session(
    gateways: dict[str, Gateway], neighbours: dict[str, Cells], link: str
) -> None:
    with gateways[link].client() as client:
        answer = client.post("/v1/sessions", json={"environment": "hostile-at-once"})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "sandbox_failed"
    assert BROKEN in answer.json()["error"]["message"]
    assert neighbours[link].text("6 * 7") == "42"
