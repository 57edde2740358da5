"""A scenario that a run leaves out is not set up in it either: nobody would see that it cannot begin."""

from __future__ import annotations

import pytest


def test_every_collected_test_finds_its_fixtures(request: pytest.FixtureRequest) -> None:
    """Also those that are skipped here; a run of the whole suite collects them all."""
    missing = {
        item.nodeid: sorted(lacks)
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and (lacks := set(item.fixturenames) - {"request"} - item._fixtureinfo.name2fixturedefs.keys())
    }
    assert not missing, "fixtures that these tests ask for and that are nowhere"
