"""Rules that every test keeps."""

import pytest

from tests.reference.node_ids import names_with_addresses


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names of tests that differ between processes: ``pytest -n`` compares those that its workers collect."""
    names = names_with_addresses(item.nodeid for item in items)
    if names:
        raise pytest.UsageError(f"names of tests contain addresses; give their parameters other ids: {', '.join(names[:3])}")
