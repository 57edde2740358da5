"""One request on a resource, as it travels through the pipeline, and the decoding of its body."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml

from reverser.sandbox.audit import AuditDraft
from reverser.sandbox.authn import User
from reverser.sandbox.builtindecode import DecodeError, decode_builtin
from reverser.sandbox.causes import Cause
from reverser.sandbox.registry import Resource
from reverser.sandbox.requestinfo import RequestInfo
from reverser.sandbox.status import ApiError, bad_request, invalid, qualified, unsupported_media
from reverser.sandbox.wire import MEDIA_TYPE as PROTOBUF
from reverser.sandbox.wire import decode_object as decode_protobuf

Obj = dict[str, Any]

_JSON = ("application/json", "")
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Call:
    """A request that names a resource."""

    info: RequestInfo
    resource: Resource
    user: User
    query: Mapping[str, str]
    content_type: str
    body: bytes
    manager: str
    draft: AuditDraft = field(default_factory=AuditDraft)
    warnings: list[str] = field(default_factory=list)

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored."""
        return self.query.get("dryRun") == "All"

    @property
    def namespace(self) -> str:
        """The namespace of the object's storage key; empty for cluster-scoped resources."""
        return self.info.namespace if self.resource.rtype.namespaced else ""

    def options(self, kind: str) -> Obj:
        """The options object an admission review shows; `force` of an apply is not among them."""
        options: Obj = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        for name in ("fieldManager", "fieldValidation"):
            if self.query.get(name):
                options[name] = self.query[name]
        return options


def parse_body(body: bytes, content_type: str) -> Any:
    """The body as plain values. Raises ValueError with Go's wording where it cannot be read."""
    if content_type == PROTOBUF:
        return decode_protobuf(body)
    if content_type in _YAML or content_type == "application/apply-patch+yaml":
        try:
            return yaml.load(body, _LOADER)  # noqa: S506 - the loader is the safe one
        except yaml.YAMLError as error:
            raise ValueError(f"error converting YAML to JSON: yaml: {error}") from error
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"json parse error: {_go_json_error(body)}") from error


def decode_object(call: Call) -> Obj:
    """The object in the body of a create or update, checked for kind and version, without nulls.

    Raises 400 (undecodable, or another kind) and 415 (a content type that no object comes in).
    """
    if call.content_type not in (*_JSON, *_YAML, PROTOBUF):
        raise unsupported_media(["application/json", "application/yaml", PROTOBUF])
    rtype = call.resource.rtype
    expected = rtype.kind
    try:
        obj = parse_body(call.body, call.content_type)
    except ValueError as error:
        text = call.body.decode(errors="replace")[:1024]
        raise bad_request(
            f"the object provided is unrecognized (must be of type {expected}): couldn't get version/kind; "
            f"{error} ({text})"
        ) from error
    if not isinstance(obj, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {expected}): couldn't get version/kind; "
            f"json parse error: json: cannot unmarshal {go_type(obj)} into Go value of type "
            "struct { APIVersion string; Kind string }"
        )
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if call.resource.crd is not None and not (kind and version):
        missing = "Kind" if not kind else "apiVersion"
        raise bad_request(f"Object '{missing}' is missing in '{call.body.decode(errors='replace')[:1024]}'")
    kind, version = kind or expected, version or rtype.group_version
    if version != rtype.group_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({rtype.group_version})"
        )
    check_kind(call, obj | {"kind": kind, "apiVersion": version})
    check_metadata_types(call, obj)
    metadata = obj.get("metadata") or {}
    head: Obj = {"kind": kind, "apiVersion": version, "metadata": without_nulls(metadata)}
    rest = obj if call.resource.crd is not None else without_nulls(obj)
    return decoded_builtin(call, head | {key: value for key, value in rest.items() if key not in head})


def check_kind(call: Call, obj: Obj) -> None:
    """Raises where the object is of another kind or version: 400 for built-in types, 422 for custom ones."""
    rtype, kind, version = call.resource.rtype, obj.get("kind") or "", obj.get("apiVersion") or ""
    if (kind, version) == (rtype.kind, rtype.group_version):
        return
    if call.resource.crd is None:
        raise bad_request(_wrong_kind(kind, version, call))
    causes = [
        Cause(field, "FieldValueInvalid", f'Invalid value: "{given}": must be {wanted}')
        for field, given, wanted in (
            ("kind", kind, rtype.kind),
            ("apiVersion", version, rtype.group_version),
        )
        if given != wanted
    ]
    name = (obj.get("metadata") or {}).get("name", "")
    raise invalid(rtype.group, kind, name, causes)


_STRING_MAPS = ("labels", "annotations")
_LISTS = {"finalizers": "[]string", "ownerReferences": "[]v1.OwnerReference"}


def check_metadata_types(call: Call, obj: Obj, *, patched: bool = False) -> None:
    """Raises for metadata of the wrong type: 400, or 422 about the result of a patch."""
    metadata = obj.get("metadata")
    said = ""
    if metadata is not None and not isinstance(metadata, dict):
        said = f"json: cannot unmarshal {go_type(metadata)} into Go value of type v1.ObjectMeta"
    for key, value in metadata.items() if isinstance(metadata, dict) else ():
        wrong, wanted = None, "string"
        if key in _STRING_MAPS and isinstance(value, dict):
            wrong = next((v for v in value.values() if v is not None and not isinstance(v, str)), None)
        elif key in _STRING_MAPS and value is not None:
            wrong, wanted = value, "map[string]string"
        elif key in _LISTS and value is not None and not isinstance(value, list):
            wrong, wanted = value, _LISTS[key]
        if wrong is not None:
            given = go_type(wrong)
            said = f"json: cannot unmarshal {given} into Go struct field ObjectMeta.{key} of type {wanted}"
    if said:
        raise undecodable(call, obj, said, patched=patched)


def undecodable(call: Call, obj: Any, said: str, *, patched: bool) -> ApiError:
    """400 for a body that does not fit its type, 422 for a patch that makes such an object."""
    rtype = call.resource.rtype
    if not patched:
        return bad_request(
            f'{rtype.kind} in version "{rtype.version}" cannot be handled as a {rtype.kind}: {said}'
        )
    shown = json.dumps(json.dumps(obj, separators=(",", ":")))
    return invalid("", "", "", [Cause("patch", "FieldValueInvalid", f"Invalid value: {shown}: {said}")])


def decoded_builtin(call: Call, obj: Obj, *, patched: bool = False) -> Obj:
    """A built-in object without the fields its type does not have; a custom resource as it is.

    Raises 400 (422 for what a patch has made) for a value of the wrong type, and 400 for unknown fields where
    `fieldValidation` is strict.
    """
    rtype = call.resource.rtype
    if call.resource.crd is not None:
        return obj
    try:
        decoded, unknown = decode_builtin(rtype.group, rtype.version, rtype.kind, obj)
    except DecodeError as error:
        raise undecodable(call, obj, str(error), patched=patched) from error
    report_unknown(call, unknown, patched=obj if patched else None)
    return decoded


def without_nulls(value: Any) -> Any:
    """A copy without null fields: a typed decoder does not tell null from absent."""
    if isinstance(value, dict):
        return {key: without_nulls(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def check_place(call: Call, obj: Obj) -> None:
    """Fill in name and namespace from the URL. Raises 400 where the body says otherwise."""
    metadata = obj["metadata"]
    if call.resource.rtype.namespaced:
        given = metadata.setdefault("namespace", call.info.namespace)
        if given != call.info.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
    else:
        metadata.pop("namespace", None)
    if call.info.name and call.info.verb != "create":
        given = metadata.setdefault("name", call.info.name)
        if given != call.info.name:
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({call.info.name})"
            )


def unknown_fields(call: Call, before: Obj, after: Obj, *, patched: bool = False) -> None:
    """Report what pruning removed: an error with `fieldValidation=Strict`, a warning unless `Ignore`."""
    report_unknown(call, _lost(before, after, ""), patched=before if patched else None)


def report_unknown(call: Call, paths: Iterable[str], *, patched: Obj | None = None) -> None:
    """Refuse unknown fields or warn of them, as `fieldValidation` says; ``patched`` is what a patch made."""
    mode = call.query.get("fieldValidation") or "Warn"
    found = [f'unknown field "{path}"' for path in paths]
    if mode == "Ignore" or not found:
        return
    if mode == "Strict":
        said = f"strict decoding error: {', '.join(found)}"
        raise undecodable(call, patched, said, patched=patched is not None)
    call.warnings += found


def _lost(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        lost: list[str] = []
        for key, value in before.items():
            below = f"{path}.{key}" if path else key
            lost += [below] if key not in after else _lost(value, after[key], below)
        return lost
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [p for i, item in enumerate(before) for p in _lost(item, after[i], f"{path}[{i}]")]
    return []


def _wrong_kind(kind: str, version: str, call: Call) -> str:
    expected, group = call.resource.rtype.kind, call.resource.rtype.group
    _, _, short = version.rpartition("/")
    package = (group.split(".", 1)[0] or "core").replace("-", "")
    return (
        f'{kind} in version "{short}" cannot be handled as a {expected}: '
        f"converting ({short}.{kind}) to ({package}.{expected}): unknown conversion"
    )


def go_type(value: Any) -> str:
    """What Go's decoder calls a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "string" if isinstance(value, str) else "number"


def _go_json_error(body: bytes) -> str:
    text = body.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            return "unexpected end of JSON input"
        char = text[error.pos]
        if "property name" in error.msg:
            where = "looking for beginning of object key string"
        elif "Expecting value" in error.msg:
            where = "looking for beginning of value"
        elif "delimiter" in error.msg:
            where = "after object key:value pair" if "," in error.msg else "after object key"
        else:
            where = "after top-level value"
        return f"invalid character {char!r} {where}"
    return "invalid UTF-8 in string"


def method_not_allowed(call: Call) -> ApiError:
    """405 for a verb the resource does not have."""
    rtype = call.resource.rtype
    return ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details={"kind": qualified(rtype.group, rtype.resource)} if rtype.group else {"kind": rtype.resource},
    )
