"""Names of tests are the same in every process, so that ``pytest -n`` takes them."""

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.reference.node_ids import names_with_addresses


def test_names_of_this_session_contain_no_address(request: pytest.FixtureRequest) -> None:
    assert not names_with_addresses(item.nodeid for item in request.session.items)


def test_a_name_with_an_address_is_refused() -> None:
    class Item:
        nodeid = f"tests/f32/test_a.py::test_b[{str(lambda: None)}]"

    with pytest.raises(pytest.UsageError, match="names of tests contain addresses; give their parameters other ids: .*lambda"):
        pytest_collection_modifyitems([Item()])
