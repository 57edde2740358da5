"""A commit is linked where the repository's address tells the forge, and never to anything but https."""

from __future__ import annotations

import pytest

from reverser.dashboard.forge import commit_url, shown_url

SHA = "a" * 40


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/acme/shop.git", f"https://github.com/acme/shop/commit/{SHA}"),
        ("git@github.com:acme/shop.git", f"https://github.com/acme/shop/commit/{SHA}"),
        ("ssh://git@gitlab.example.com:2222/a/b/c.git", f"https://gitlab.example.com/a/b/c/-/commit/{SHA}"),
        ("https://gitlab.example.com:8443/a/b", f"https://gitlab.example.com:8443/a/b/-/commit/{SHA}"),
        ("https://bitbucket.org/acme/shop", f"https://bitbucket.org/acme/shop/commits/{SHA}"),
        ("https://codeberg.org/acme/shop", f"https://codeberg.org/acme/shop/commit/{SHA}"),
        ("https://git.example.com/acme/shop", ""),
        ("https://notgithub.com/acme/shop", ""),
        ("file:///srv/shop.git", ""),
        ("javascript:alert(1)", ""),
        ("", ""),
    ],
)
def test_commit_url(url: str, expected: str) -> None:
    """A commit's page is known for known forges, over https and without secrets; else there is no link."""
    assert commit_url(url, SHA) == expected


def test_address_without_secret() -> None:
    """What stands before the @ of an https address is not shown."""
    assert "hunter2" not in shown_url("https://user:hunter2@github.com/acme/shop.git")
