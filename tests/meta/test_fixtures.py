"""A scenario that a run leaves out is not set up in it either: nobody would see that it cannot begin."""

from __future__ import annotations

import pytest


def test_every_collected_test_finds_its_fixtures(request: pytest.FixtureRequest) -> None:
    """Also those that are skipped here; a run of the whole suite collects them all. Names that begin with an
    underscore are a plugin's own, which it adds when an asynchronous test begins."""
    missing = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function):
            asked = {name for name in item.fixturenames if not name.startswith("_")}
            if lacks := asked - {"request"} - item._fixtureinfo.name2fixturedefs.keys():
                missing[item.nodeid] = sorted(lacks)
    assert not missing, "fixtures that these tests ask for and that are nowhere"
