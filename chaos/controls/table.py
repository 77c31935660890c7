"""All negative controls."""

from __future__ import annotations

from chaos.controls import changed_byte, fsync_lies, fsync_off, majority_rot
from chaos.controls.control import Control

CONTROLS: tuple[Control, ...] = (
    fsync_off.CONTROL,
    fsync_lies.CONTROL,
    majority_rot.CONTROL,
    changed_byte.CONTROL,
)
