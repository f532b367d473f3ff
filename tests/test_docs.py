"""What the documents say is so: their commands and snippets run, their tables are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from interpreter.config import Config, load
from interpreter.errors import BY_CODE
from interpreter.models import EventType, ExecutionCreate, Limits
from tests.conftest import Gateway

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "SPECIFICATION.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> str:
    """All code blocks of one language, as one text."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S))


def with_blocks(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def environment(gateway: Gateway) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("INTERPRETER_")}
    return kept | {
        "INTERPRETER_URL": gateway.url,
        "INTERPRETER_DATA_DIR": str(gateway.data),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def check(command: list[str], gateway: Gateway, folder: Path) -> str:
    (folder / ".venv").symlink_to(sys.prefix)
    done = subprocess.run(
        command, env=environment(gateway), cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", with_blocks("sh"), ids=lambda p: p.name)
def test_the_commands_of_a_page_run(page: Path, gateway: Gateway, tmp_path: Path) -> None:
    script = "set -euo pipefail\n" + blocks(page, "sh")
    output = check(["bash", "-c", script], gateway, tmp_path)
    if page.name == "README.md":
        assert "42\n" in output


@pytest.mark.parametrize("page", with_blocks("python"), ids=lambda p: p.name)
def test_the_snippets_of_a_page_run(page: Path, gateway: Gateway, tmp_path: Path) -> None:
    check([sys.executable, "-c", blocks(page, "python")], gateway, tmp_path)


@pytest.mark.parametrize("page", with_blocks("toml"), ids=lambda p: p.name)
def test_the_settings_of_a_page_load(page: Path, tmp_path: Path) -> None:
    (tmp_path / "interpreter.toml").write_text(blocks(page, "toml"))
    assert load({}, {}, tmp_path / "interpreter.toml").origins


def test_every_setting_and_limit_is_documented() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    for struct in (Config, Limits):
        for field in msgspec.structs.fields(struct):
            assert field.name in text, field.name
    for name in ("memory_mb", "disk_mb"):
        assert f"| `{name}` | {getattr(Limits(), name)} | {getattr(Config().maximums, name)} |" in text


def test_every_error_event_and_option_is_documented() -> None:
    text = (ROOT / "docs/api.md").read_text()
    documented = {code for code in BY_CODE if f"`{code}`" in text}
    # The rest is met only when starting the gateway, or by the SDK on the client's side.
    assert {
        c for c, error in BY_CODE.items() if error.__module__ == "interpreter.errors"
    } - documented == {"configuration"}
    for event in EventType:
        assert f"`{event.value}`" in text, event
    for field in msgspec.structs.fields(ExecutionCreate):
        assert f"`{field.name}`" in text, field.name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_what_the_specification_names_exists() -> None:
    text = (ROOT / "SPECIFICATION.md").read_text() + (ROOT / "docs/faults.md").read_text()
    named = re.findall(r"`((?:tests|benchmarks)/[\w/]+(?:\.py)?)(?:::(\w+))?`", text)
    assert len(named) > 20
    for file, test in named:
        path = ROOT / file
        assert path.exists(), file
        if test:
            assert f"def {test}(" in path.read_text(), f"{file}::{test}"


def test_every_dependency_has_its_reason() -> None:
    import json
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs/dependencies.md").read_text()
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    page = json.loads((ROOT / "interpreter/gateway/web/package.json").read_text())
    groups += [page.get("dependencies", {}), page.get("devDependencies", {})]
    for requirement in (r for group in groups for r in group):
        name = re.split(r"[<>=\[]", requirement)[0]
        assert name in text, name
