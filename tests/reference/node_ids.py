"""Names of tests that are the same in every process, as tests that several processes share need them."""

import re
from collections.abc import Iterable

ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def names_with_addresses(node_ids: Iterable[str]) -> list[str]:
    """Those names of tests that contain an address of the memory, which is another one in each process."""
    return [name for name in node_ids if ADDRESS.search(name)]
