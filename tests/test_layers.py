"""The layers of the house: a module imports only from those below its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "interpreter"

BASE = {"errors", "models", "config"}
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "models": set(),
    "config": {"errors", "models"},
    "runtimes": BASE,
    "store": BASE,
    "link": set(),
    "workspace": BASE | {"link", "runtimes", "store"},
    "kernel": BASE | {"link", "runtimes", "store"},
    "orchestrator": BASE | {"kernel", "workspace", "link", "runtimes", "store"},
    "gateway": BASE | {"orchestrator", "kernel", "workspace", "link", "runtimes", "store"},
    # What runs inside a sandbox shares the frame format with the rest and nothing else.
    "sandbox": {"link"},
    "client": BASE,
    "provisioner": BASE | {"client"},
    "lab": {"client", "models", "errors"},
    "cli": BASE | {"client", "gateway", "runtimes", "lab"},
}
OUTSIDE_OF_SANDBOX = {"interpreter", "ipykernel", "traitlets", "zmq"}


def modules() -> list[Path]:
    found = (path for path in PACKAGE.rglob("*.py") if "node_modules" not in path.parts)
    return sorted(path for path in found if path.parent != PACKAGE)


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_every_part_has_its_place() -> None:
    parts = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    parts |= {p.stem for p in PACKAGE.glob("*.py") if p.stem != "__init__"}
    assert parts == set(BELOW)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_layers_below(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0]
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "interpreter" and rest:
            target = rest.split(".")[0]
            if target in BELOW:
                assert target == layer or target in BELOW[layer], f"{layer} imports {name}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "sandbox").glob("*.py")), ids=lambda p: p.stem)
def test_the_sandbox_needs_only_what_every_kernel_has(path: Path) -> None:
    import sys

    for name in imports(path):
        top = name.split(".")[0]
        assert top in sys.stdlib_module_names or top in OUTSIDE_OF_SANDBOX, name


@pytest.mark.parametrize("path", sorted((PACKAGE / "link").glob("*.py")), ids=lambda p: p.stem)
def test_the_link_needs_only_the_standard_library(path: Path) -> None:
    import sys

    for name in imports(path):
        top = name.split(".")[0]
        assert top in sys.stdlib_module_names or top == "interpreter", name
