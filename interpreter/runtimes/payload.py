"""The payload: the code that runs inside a sandbox, copied out of this package.

The kernel host shares `interpreter.link` with the gateway but must not need what the gateway
needs. So its modules are copied into a tree of their own, where `interpreter` is a namespace
package without an `__init__`, together with the few files of `/etc` that name the sandbox's
user. The tree is named after its contents and written once; a new version of the gateway makes
a new tree and does not disturb sandboxes that run from the old one.
"""

from __future__ import annotations

import compileall
import hashlib
import shutil
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
SOURCES = {"sandbox": PACKAGE / "sandbox", "link": PACKAGE / "link"}
IN_SANDBOX = "/opt/interpreter"
"""Where a sandbox with a view of its own sees the tree."""

ETC = {
    "passwd": (
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        "sandbox:x:1000:1000:sandbox:/tmp/home:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def write(data: Path, sources: dict[str, Path] | None = None) -> Path:
    """The tree `data/payload-<hash>`, written first if it is not there. Readable by everyone."""
    files = {f"etc/{name}": text.encode() for name, text in ETC.items()}
    for name, folder in (SOURCES if sources is None else sources).items():
        for path in sorted(folder.rglob("*.py")):
            files[f"interpreter/{name}/{path.relative_to(folder)}"] = path.read_bytes()
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    target = data / f"payload-{digest.hexdigest()[:16]}"
    if target.is_dir():
        return target
    made = Path(tempfile.mkdtemp(dir=data, prefix=".payload-"))
    try:
        _fill(made, files)
        try:
            made.rename(target)
        except OSError:
            # Another gateway was quicker; its tree is the same.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target


def _fill(tree: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    # The kernel environment has the same Python, and nothing can be written beside it later.
    compileall.compile_dir(tree, quiet=2, stripdir=str(tree), prependdir=IN_SANDBOX)
    for path in [tree, *tree.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
