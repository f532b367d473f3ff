"""`interpreter kernelspec install`: tells Jupyter applications of kernels that run in sessions."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec

from interpreter.cli.exits import Exit, complain


def install(
    name: str, environment: str | None, display_name: str | None, *, user: bool, prefix: str | None
) -> int:
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        complain("jupyter-client is missing: pip install 'interpreter[jupyter]'")
        return Exit.usage
    with tempfile.TemporaryDirectory() as folder:
        spec = kernelspec(environment, display_name)
        encoded = msgspec.json.format(msgspec.json.encode(spec), indent=1)
        (Path(folder) / "kernel.json").write_bytes(encoded + b"\n")
        try:
            place = KernelSpecManager().install_kernel_spec(
                folder, name, user=user, prefix=None if user else prefix or sys.prefix
            )
        except (OSError, ValueError) as e:
            complain(f"The kernelspec cannot be written: {e}")
            return Exit.usage
    print(place)
    return Exit.ok


def kernelspec(environment: str | None, display_name: str | None) -> dict[str, object]:
    """What is in kernel.json. The gateway and its token are found when a kernel starts."""
    config = {} if environment is None else {"environment": environment}
    return {
        "argv": [],
        "display_name": display_name or f"{environment or 'Python'} (Interpreter)",
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"kernel_provisioner": {"provisioner_name": "interpreter", "config": config}},
    }
