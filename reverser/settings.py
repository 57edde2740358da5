"""Django's settings, derived from the product's own table (reverser.config)."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dj_database_url
from csp.constants import NONE, SELF, UNSAFE_INLINE

from reverser.config import Config, load_config
from reverser.errors import SettingsInvalid
from reverser.store.address import (
    SCHEMES,
    address_problem,
    parse_sentinels,
    tls_options,
    without_tls_options,
)

CONFIG: Config = load_config()
BASE_DIR = Path(__file__).resolve().parent.parent


def _secret_key(config: Config) -> str:
    """The configured key, else one generated once into the state directory (readable by the owner only)."""
    if config.secret_key:
        return config.secret_key
    path = config.state_dir / "secret-key"
    try:
        if path.exists() and (found := path.read_text(encoding="ascii")):
            return found
        config.state_dir.mkdir(parents=True, exist_ok=True)
        return _generated_key(path)
    except OSError as error:
        raise SettingsInvalid(
            [
                f"REVERSER_STATE_DIR: {path} cannot be read or written: {error.strerror}; choose another "
                "folder with REVERSER_STATE_DIR or --state-dir"
            ]
        ) from error


def _generated_key(path: Path) -> str:
    """The key in ``path``, made where there is none, by one of the processes that start together."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        key = file.read()
        if not key:
            key = secrets.token_urlsafe(50)
            file.write(key)
            file.flush()
        return key


def _database(config: Config) -> dict[str, Any]:
    if config.database_url:
        try:
            return dict(dj_database_url.parse(config.database_url, conn_max_age=60, conn_health_checks=True))
        except ValueError as error:
            raise SettingsInvalid(
                ["REVERSER_DATABASE_URL: it cannot be read; write postgres://user:password@host/name"]
            ) from error
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(config.state_dir / "history.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _broker_url(redis_url: str) -> str:
    """The spelling of a Redis address that Celery understands."""
    place = parse_sentinels(redis_url)
    if place is not None:
        login = (
            f"{quote(place.username, safe='')}:{quote(place.password, safe='')}@" if place.password else ""
        )
        hosts = ((f"[{host}]" if ":" in host else host, port) for host, port in place.hosts)
        return ";".join(f"sentinel://{login}{host}:{port}/{place.database}" for host, port in hosts)
    if redis_url.startswith("unix://"):
        path, _, query = redis_url.removeprefix("unix://").partition("?")
        database = dict(part.partition("=")[::2] for part in query.split("&") if part).get("db", "0")
        return f"redis+socket://{path}?virtual_host={database}"
    return without_tls_options(redis_url) if redis_url.startswith("rediss://") else redis_url


def _check_addresses(config: Config) -> None:
    """Refuses unusable addresses before anything is started, in every process."""
    problems = []
    if config.redis_url and (problem := address_problem(config.redis_url)):
        problems.append(f"REVERSER_REDIS_URL: {problem}")
    # Celery knows brokers besides Redis.
    if config.broker_url.partition("://")[0] in SCHEMES and (problem := address_problem(config.broker_url)):
        problems.append(f"REVERSER_BROKER_URL: {problem}")
    if problems:
        raise SettingsInvalid(problems)


def _broker_options(redis_url: str) -> dict[str, Any]:
    """What Celery's transport must know about Sentinels beside their addresses."""
    place = parse_sentinels(redis_url)
    if place is None:
        return {}
    return {"master_name": place.primary, "sentinel_kwargs": place.sentinel_options}


SECRET_KEY = _secret_key(CONFIG)
DEBUG = False
ALLOWED_HOSTS = [host.strip() for host in CONFIG.allowed_hosts.split(",") if host.strip()]
ROOT_URLCONF = "reverser.urls"
WSGI_APPLICATION = "reverser.wsgi.application"
DATABASES = {"default": _database(CONFIG)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
STATIC_URL = "/static/"
STATIC_ROOT = CONFIG.state_dir / "static"

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "reverser.dashboard.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.humanize",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "reverser",
    "reverser.history",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "reverser.dashboard.outage.DatabaseOutage",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "reverser" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if CONFIG.tls_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 30 * 24 * 3600
    CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS if host != "*"]

# Scripts are our own files. Only the admin adds 'unsafe-eval', which its theme's Alpine needs.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF, UNSAFE_INLINE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

FORMAT_MODULE_PATH = ["reverser.dashboard.formats"]
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"
AUTHENTICATION_BACKENDS = [
    "reverser.dashboard.loginlimit.LimitedBackend",
    "django.contrib.auth.backends.ModelBackend",
    "reverser.dashboard.oidc.OpenIdBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 50_000},
    }
}
UNFOLD = {
    "SITE_TITLE": "GitOps Reverser",
    "SITE_HEADER": "GitOps Reverser",
    "SITE_SYMBOL": "history",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": "reverser.dashboard.navigation.favicon"}
    ],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": ["reverser.dashboard.navigation.stylesheet"],
    "SCRIPTS": ["reverser.dashboard.navigation.keyboard"],
    "SIDEBAR": {"navigation": "reverser.dashboard.navigation.sections"},
}

_check_addresses(CONFIG)
CELERY_BROKER_URL = _broker_url(CONFIG.broker_url or CONFIG.redis_url) or "memory://"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_STORE_EAGER_RESULT = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Retry forever: a missing broker shows in readiness, not as a process in a crash loop.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600, "socket_timeout": 30, "socket_keepalive": True}
CELERY_BROKER_TRANSPORT_OPTIONS |= _broker_options(CONFIG.broker_url or CONFIG.redis_url)
CELERY_BROKER_USE_SSL = tls_options(CONFIG.broker_url or CONFIG.redis_url) or False
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = CONFIG.worker_threads
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BEAT_SCHEDULER = "reverser.beat:WaitingScheduler"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "reverser.rest.authentication.KubernetesToken",
        "reverser.rest.authentication.AdminSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["reverser.rest.problems.BoundedJSONParser"],
    "DEFAULT_THROTTLE_CLASSES": ["reverser.rest.throttling.CallerThrottle"],
    "DEFAULT_SCHEMA_CLASS": "reverser.rest.schema.Schema",
    "EXCEPTION_HANDLER": "reverser.rest.problems.handle",
    "UNAUTHENTICATED_USER": None,
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%fZ",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "GitOps Reverser",
    "DESCRIPTION": "Whether Git is up to date, what was committed for whom, and saving on request.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
}

LOGGING_CONFIG = "reverser.logs.configure"
LOGGING = {"format": CONFIG.log_format, "level": CONFIG.log_level}
