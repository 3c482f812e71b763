"""Rules that every test keeps."""

from collections.abc import Generator

import pytest

from tests.reference.node_ids import names_with_addresses


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names of tests that differ between processes: ``pytest -n`` compares those that its workers collect."""
    names = names_with_addresses(item.nodeid for item in items)
    if names:
        raise pytest.UsageError(f"names of tests contain addresses; give their parameters other ids: {', '.join(names[:3])}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip a test whose kernels are refused by the compiler for Vulkan, as by their functions in double precision."""
    try:
        return (yield)
    except RuntimeError as error:
        if "spirv_codegen.cpp" in str(error):
            pytest.skip("Vulkan lacks an operation of a kernel, such as a sine or an exponential in double precision")
        raise
