"""The WSGI application of the web process."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

from reverser.health import health_first

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
application = health_first(get_wsgi_application())
