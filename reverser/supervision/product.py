"""The product on one machine: its processes, their environment, its database and its first administrator."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from reverser.config import Config, variable_name
from reverser.errors import SettingsInvalid
from reverser.supervision.processes import Program

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Login:
    """The generated administrator of a first start."""

    username: str
    password: str


def child_environment(config: Config, redis_url: str) -> dict[str, str]:
    """The environment of the children: the parent's, with every address made explicit."""
    environment = dict(os.environ)
    environment[variable_name("redis_url")] = redis_url
    environment[variable_name("state_dir")] = str(config.state_dir)
    environment.setdefault(variable_name("health_addr"), "127.0.0.1:0")
    environment.setdefault(variable_name("digest_key_file"), str(config.state_dir / "digest-key"))
    environment["PROMETHEUS_MULTIPROC_DIR"] = str(config.state_dir / "metrics")
    environment["DJANGO_SETTINGS_MODULE"] = "reverser.settings"
    environment["PYTHONUNBUFFERED"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (str(ROOT), environment.get("PYTHONPATH", "")) if part
    )
    return environment


def programs(environment: dict[str, str], *, threads: int, state_dir: Path) -> list[Program]:
    """The four processes of the product."""
    python = sys.executable
    # Web exports for all: the others would need an address each, and count everything again.
    silent = {
        f"{variable_name(name)}{end}"
        for name in ("metrics_cert_dir", "otlp_endpoint")
        for end in ("", "_FILE")
    }
    others = {name: value for name, value in environment.items() if name not in silent}
    manage = str(ROOT / "manage.py")
    celery = (python, "-m", "celery", "--quiet", "-A", "reverser")
    worker = (
        *celery,
        "worker",
        "--pool",
        "threads",
        "--concurrency",
        str(threads),
        "--hostname",
        f"worker-{secrets.token_hex(3)}@%h",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    )
    # Beat sleeps its whole interval before it ends.
    beat = (*celery, "beat", "--max-interval", "1", "--pidfile", str(state_dir / "run" / "beat.pid"))
    return [
        Program("web", (python, manage, "serve"), environment, stop_seconds=8),
        Program("worker", worker, others, stop_seconds=25),
        Program("watcher", (python, manage, "watch"), others, stop_seconds=10),
        Program("beat", beat, others, stop_seconds=8),
    ]


def prepare_folders(state_dir: Path) -> None:
    for name in ("run", "metrics"):
        # Leftovers of a killed run are useless.
        shutil.rmtree(state_dir / name, ignore_errors=True)
        (state_dir / name).mkdir(parents=True)


def prepare_database(state_dir: Path) -> Login | None:
    """Migrate the tables and create the first administrator (see ``ensure_login``). Raises SettingsInvalid
    where the database cannot be reached or written.
    """
    from django.core.management import call_command
    from django.db import connections
    from django.db.utils import DatabaseError

    try:
        call_command("migrate", interactive=False, verbosity=0)
        return ensure_login(state_dir)
    except DatabaseError as error:
        reason = str(error).strip().partition("\n")[0]
        raise SettingsInvalid(
            [
                f"the history database cannot be prepared ({reason}); check REVERSER_DATABASE_URL, or the "
                "space and the rights of the state directory"
            ]
        ) from error
    finally:
        connections.close_all()


def ensure_login(state_dir: Path) -> Login | None:
    """Create an administrator with a generated password where there is none yet.

    The password is kept in ``admin-password`` in the state directory, readable by the owner alone.
    """
    from django.contrib.auth import get_user_model

    users = get_user_model().objects
    path = state_dir / "admin-password"
    if users.filter(is_superuser=True).exists():
        password = path.read_text(encoding="ascii") if path.exists() else ""
        admin = users.filter(username="admin").first()
        # A password that was changed since must not be shown.
        return Login("admin", password) if admin is not None and admin.check_password(password) else None
    password = secrets.token_urlsafe(12)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(password, encoding="ascii")
    users.create_superuser("admin", "", password)
    return Login("admin", password)


def describe_login(login: Login | None) -> str:
    """One line that tells how to log in."""
    if login is None:
        return "log in with an account that you have created"
    return f"log in as {json.dumps(login.username)} with password {json.dumps(login.password)}"
