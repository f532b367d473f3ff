"""Kernels that are started by their own command, without a zygote."""

from __future__ import annotations

import gc
import select
from pathlib import Path

from interpreter.sandbox.kernels import Launcher
from interpreter.sandbox.settings import Settings


def test_without_a_zygote_nothing_says_that_it_is_gone(tmp_path: Path) -> None:
    """Or the kernel host would renew it for ever."""
    settings = Settings(scratch=str(tmp_path), workspace=str(tmp_path), argv=["true"])
    launcher = Launcher(settings)
    gc.collect()
    try:
        assert select.select([launcher.channel], [], [], 0)[0] == []
    finally:
        launcher.close()
