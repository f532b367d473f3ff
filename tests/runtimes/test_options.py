"""What an environment may ask for, and what the engine is then asked; on a real one in e2e/test_options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interpreter.config import Environment
from interpreter.errors import ConfigurationError
from interpreter.runtimes import options


@pytest.mark.parametrize(
    ("gpus", "asked"),
    [
        ("all", {"Count": -1, "DeviceIDs": []}),
        ("2", {"Count": 2, "DeviceIDs": []}),
        (2, {"Count": 2, "DeviceIDs": []}),
        ("GPU-3a2,GPU-7f1", {"Count": 0, "DeviceIDs": ["GPU-3a2", "GPU-7f1"]}),
        ("0,1", {"Count": 0, "DeviceIDs": ["0", "1"]}),
    ],
)
def test_gpus_are_asked_for(gpus: str | int, asked: dict[str, Any]) -> None:
    request = {"Driver": "", "Capabilities": [["gpu"]], "Options": {}}
    assert options.device_requests(gpus) == [request | asked]
    assert options.device_requests(None) is None


@pytest.mark.parametrize(
    ("name", "described"),
    [
        ("runsc", {"path": "/usr/bin/runsc"}),
        ("guarded", {"path": "/usr/local/bin/runsc"}),
        ("guarded", {"runtimeType": "io.containerd.runsc.v1"}),
    ],
)
def test_gvisor_is_known_by_its_program(name: str, described: dict[str, str]) -> None:
    info = {"Runtimes": {name: described, "runc": {"path": "runc"}}}
    assert options.is_gvisor(Environment(oci_runtime=name), info)
    assert not options.is_gvisor(Environment(oci_runtime="runc"), info)
    assert not options.is_gvisor(Environment(), info)


@pytest.mark.parametrize("gpus", ["", 0, "0", -1, "a,,b"])
def test_gpus_that_make_no_sense_are_refused(gpus: str | int) -> None:
    with pytest.raises(ConfigurationError, match="The environment 'science' has gpus"):
        options.check("science", Environment(gpus=gpus), [], {})


@pytest.mark.parametrize(
    ("mount", "problem"),
    [
        ("{}/secret:/data", "below none of allowed_mounts"),
        ("{}/allowed/../secret:/data", "below none of allowed_mounts"),
        ("{}/allowed/way-out:/data", "/secret\\), which is below none of allowed_mounts"),
        ("{}/allowed/way-out/key:/data", "below none of allowed_mounts"),
        ("{}/allowed-too:/data", "below none of allowed_mounts"),
        ("{}/allowed/in/../../../secret", "below none of allowed_mounts"),
        ("/:/data", "below none of allowed_mounts"),
        ("allowed:/data", "not of the form /host:/inside"),
        ("{}/allowed:data", "not of the form /host:/inside"),
        ("{}/allowed:/data:rw", "not of the form /host:/inside"),
        ("{}/allowed:/workspace/data", "where a session has something else"),
        ("{}/allowed://tmp", "where a session has something else"),
        ("{}/allowed:/data/../opt", "where a session has something else"),
        ("{}/allowed:/", "where a session has something else"),
    ],
)
def test_a_mount_that_may_not_be_is_refused(tmp_path: Path, mount: str, problem: str) -> None:
    for name in ("secret", "allowed", "allowed-too"):
        (tmp_path / name).mkdir()
    (tmp_path / "allowed/way-out").symlink_to(tmp_path / "secret")
    environment = Environment(mounts=[mount.format(tmp_path)])
    with pytest.raises(ConfigurationError, match=f"The environment 'science' .*{problem}"):
        options.check("science", environment, [f"{tmp_path}/allowed"], {})


def test_what_was_checked_is_what_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    environment = Environment(mounts=[f"{tmp_path}/link:/data/public"])
    options.check("science", environment, [str(tmp_path)], {})
    (made,) = options.mounts(environment)
    assert (made["Source"], made["Target"], made["ReadOnly"]) == (
        f"{tmp_path}/real",
        "/data/public",
        True,
    )
