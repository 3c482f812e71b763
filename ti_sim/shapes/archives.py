"""Size check of compressed mesh files before decompression."""

from __future__ import annotations

import bz2
import gzip
import zipfile
import zlib
from pathlib import Path

from ti_sim.base.errors import UserError

_MAX_BYTES = 1 << 30  # largest unpacked size
_ALWAYS_ALLOWED_BYTES = 1 << 24  # unpacked size that is allowed at any ratio
_MAX_RATIO = 100.0  # of unpacked to packed size: 3 to 30 for meshes
_CHUNK_BYTES = 1 << 20  # size of a read


def check_unpacked_size(path: Path, name: str) -> None:
    """Raise a UserError if a compressed file (zip, gzip, bzip2, or a format based on zip) is far too large when unpacked.

    Args:
        path: path of any file; uncompressed files pass.
        name: name of the file in error messages.
    """
    packed_size = path.stat().st_size
    max_bytes = min(_MAX_BYTES, max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * packed_size))
    unpacked_size = _unpacked_size(path, max_bytes)
    if unpacked_size > max_bytes:
        raise UserError(
            f"{name} holds {packed_size / 1e6:.3g} MB that unpack to {'' if zipfile.is_zipfile(path) else 'more than '}"
            f"{unpacked_size / 1e6:.4g} MB: no mesh packs like that, or it is too large; unpack it yourself if you trust it"
        )


def _unpacked_size(path: Path, max_bytes: float) -> float:
    """Unpacked size of a file in bytes. A file that must be decompressed for this is read up to about ``max_bytes``."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return float(sum(member.file_size for member in archive.infolist()))
        open_file = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower())
        if open_file is None:
            return 0.0
        total = 0
        with open_file(path, "rb") as stream:
            while total <= max_bytes and (chunk := stream.read(_CHUNK_BYTES)):
                total += len(chunk)
        return float(total)
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile):
        return 0.0  # damaged: its reader reports the error
