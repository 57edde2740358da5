"""The OpenAPI document: every operation lists its refusals, all of one shape, and the two ways in."""

from __future__ import annotations

from typing import Any, Literal

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

Direction = Literal["request", "response"]


class CauseSerializer(serializers.Serializer[Any]):
    """One field that cannot be used."""

    field = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """A refusal, as RFC 9457 writes it."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    causes = CauseSerializer(many=True, required=False)
    retryAfter = serializers.IntegerField(required=False, help_text="Seconds")


class Schema(AutoSchema):
    """Adds the refusals that any operation may answer."""

    REFUSALS = ("400", "401", "403", "404", "405", "406", "410", "429", "503")
    WRITE_REFUSALS = ("409", "413", "415", "422")

    def get_override_parameters(self) -> list[Any]:
        """Nothing but what the views say."""
        return []

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        codes = self.REFUSALS + (self.WRITE_REFUSALS if self.method == "POST" else ())
        component = self.resolve_serializer(ProblemSerializer, "response").ref
        for code in codes:
            bodies.setdefault(
                code, {"content": {"application/problem+json": {"schema": component}}, "description": ""}
            )
        if self.method == "GET":
            bodies.setdefault("304", {"description": "Not modified since the given ETag"})
        return bodies


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The bearer token in the document."""

    target_class = "reverser.rest.authentication.KubernetesToken"
    name = "kubernetesToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """An HTTP bearer scheme."""
        return {"type": "http", "scheme": "bearer", "description": "A bearer token of the cluster"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The admin's session in the document."""

    target_class = "reverser.rest.authentication.AdminSession"
    name = "adminSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """A cookie."""
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
