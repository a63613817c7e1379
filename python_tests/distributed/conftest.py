"""The fixtures of the tests of several processes."""

import pytest
from gang import Gang


@pytest.fixture(scope="session")
def gang():
    gang = Gang()
    yield gang
    gang.close()
