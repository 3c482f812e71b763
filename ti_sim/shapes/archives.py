"""Packed mesh files: how large they are unpacked, before they are."""

from __future__ import annotations

import bz2
import gzip
import zipfile
import zlib
from pathlib import Path

from ti_sim.base.errors import UserError

_LARGEST = 1 << 30  # bytes
_SMALL = 1 << 24  # bytes: whatever its ratio, this much may be unpacked
_RATIO = 100.0  # of unpacked to packed: meshes reach 3 to 30
_CHUNK = 1 << 20  # bytes


def check_unpacked_size(path: Path, name: str) -> None:
    """Raise a UserError for a packed file (zip, gzip, bzip2; also formats that are zip files) that unpacks to far too much.

    Args:
        path: of any file; one that is not packed passes.
        name: what the error calls it.
    """
    packed = path.stat().st_size
    most = min(_LARGEST, max(_SMALL, _RATIO * packed))
    unpacked = _unpacked(path, most)
    if unpacked > most:
        raise UserError(
            f"{name} holds {packed / 1e6:.3g} MB that unpack to {'' if zipfile.is_zipfile(path) else 'more than '}"
            f"{unpacked / 1e6:.4g} MB: no mesh packs like that, or it is too large; unpack it yourself if you trust it"
        )


def _unpacked(path: Path, most: float) -> float:
    """Bytes that a file unpacks to; where only unpacking tells, no more than a little beyond ``most``."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return float(sum(member.file_size for member in archive.infolist()))
        opened = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower())
        if opened is None:
            return 0.0
        total = 0
        with opened(path, "rb") as stream:
            while total <= most and (chunk := stream.read(_CHUNK)):
                total += len(chunk)
        return float(total)
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile):
        return 0.0  # damaged: its reader says what is wrong
