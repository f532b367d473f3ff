"""Makes an image's requirements.txt anew from its packages.txt.

    python3.11 kernel-images/resolve.py [NAME…]

packages.txt says what is wanted; requirements.txt says which version of everything that takes, so
that an image built next year is the same. Run it with the image's Python, on Linux, and look at
the difference before you commit it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HEADER = "# Made from packages.txt by kernel-images/resolve.py for Python 3.11.\n"


def resolve(folder: Path) -> str:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["--dry-run", "--ignore-installed", "--quiet", "--only-binary", ":all:", "--report", "-"]
    done = subprocess.run(
        [*pip, *options, "-r", str(folder / "packages.txt")], check=True, stdout=subprocess.PIPE
    )
    chosen = [entry["metadata"] for entry in json.loads(done.stdout)["install"]]
    pins = {re.sub(r"[-_.]+", "-", package["name"]).lower(): package["version"] for package in chosen}
    return HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))


if __name__ == "__main__":
    if sys.version_info[:2] != (3, 11):
        sys.exit("Run this with Python 3.11, which the images have.")
    for name in sys.argv[1:] or sorted(path.parent.name for path in HERE.glob("*/packages.txt")):
        print(f"resolving {name}", file=sys.stderr)
        (HERE / name / "requirements.txt").write_text(resolve(HERE / name))
