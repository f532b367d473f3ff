"""What one owner may have of the disk."""

from __future__ import annotations

import pytest

from interpreter.config import Config
from interpreter.errors import OwnerDiskFull
from interpreter.orchestrator.quotas import Quotas


def test_an_owner_is_bound_unless_the_settings_say_else() -> None:
    largest = Config().maximums.disk_mb
    has = 0
    quotas = Quotas(Config().owner_disk_mb, lambda owner: has)
    while has < 100 * largest:
        try:
            with quotas.room_for("ann", largest):
                has += largest
        except OwnerDiskFull:
            break
    assert 5 * largest < has < 100 * largest
    with Quotas(0, lambda owner: has).room_for("ann", largest):
        pass
    with pytest.raises(OwnerDiskFull, match="'ann' has"), quotas.room_for("ann", largest):
        pass
