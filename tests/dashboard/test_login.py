"""Guessing passwords is slowed down, and a right password forgives."""

from __future__ import annotations

import pytest
from django.contrib.auth import authenticate, login
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from reverser.store import Store
from tests.dashboard import world

PASSWORD = "correct horse battery"


@pytest.fixture
def alice(web: Store) -> User:
    user = world.person("alice", "viewer")
    user.set_password(PASSWORD)
    user.save()
    return user


def _log_in(password: str, name: str = "alice") -> bool:
    """As the login form does, without its page."""
    request = RequestFactory().post("/admin/login/")
    request.session = Client().session  # type: ignore[assignment]
    user = authenticate(request, username=name, password=password)
    if user is None:
        return False
    login(request, user)
    return True


def test_form(alice: User) -> None:
    """The form lets the right password in, and nobody beyond the limit."""
    form = {"username": "alice", "password": PASSWORD, "next": "/admin/"}
    assert Client().post("/admin/login/", form).status_code == 302
    for _ in range(10):
        _log_in("wrong")

    assert Client().post("/admin/login/", form).status_code == 200


def test_right_password(alice: User) -> None:
    """A correct password leads to the admin."""
    assert _log_in(PASSWORD)


def test_limit_by_name(alice: User) -> None:
    """After ten failures not even the right password is looked at; another name still is."""
    world.person("bob", "viewer")
    for _ in range(10):
        assert not _log_in("wrong")

    assert not _log_in(PASSWORD)
    assert not _log_in(PASSWORD, "Alice ")


def test_success_forgives(alice: User) -> None:
    """Failures before a right password do not add up with later ones."""
    for _ in range(9):
        _log_in("wrong")
    assert _log_in(PASSWORD)
    _log_in("wrong")

    assert _log_in(PASSWORD)


def test_limit_by_address(alice: User) -> None:
    """Many names from one address are limited too."""
    for number in range(50):
        assert not _log_in("wrong", f"name-{number}")

    assert not _log_in(PASSWORD)
