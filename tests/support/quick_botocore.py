"""Skips work of botocore that takes half of its CPU time: signatures, which no engine checks, and repeated look-ups."""

import functools
import json
import weakref
from typing import Any

import botocore.session
from botocore import hooks
from botocore.auth import SigV4Auth
from botocore.client import ClientCreator
from botocore.exceptions import NoCredentialsError
from botocore.hooks import EventAliaser
from botocore.loaders import create_loader
from botocore.parsers import JSONParser
from botocore.regions import EndpointRulesetResolver
from botocore.serialize import JSONSerializer

_add_auth = SigV4Auth.add_auth
_init_aliaser = EventAliaser.__init__
_construct_endpoint = EndpointRulesetResolver.construct_endpoint
_serialize = JSONSerializer._serialize
_handle_json_body = JSONParser._handle_json_body
_load_service_model = ClientCreator._load_service_model
_accepts_kwargs = hooks.accepts_kwargs
_aliases: dict[str, str] = {}
_service_models: dict[tuple[str, str | None], Any] = {}
_handlers: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

_OPERATIONS = (
    *("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"),
    *("TransactWriteItems", "BatchGetItem", "BatchWriteItem", "BatchExecuteStatement", "ExecuteStatement"),
)
_INPUTS, _OUTPUTS = ({f"{operation}{end}" for operation in _OPERATIONS} for end in ("Input", "Output"))
"""The shapes of DynamoDB's requests and responses about items."""


def leave_signatures_out() -> None:
    """Replace all signatures of requests with a constant, for the rest of this process."""
    SigV4Auth.add_auth = _add_constant


def share_descriptions() -> None:
    """Let all sessions share AWS's service descriptions, because reading them takes longer than most tests."""
    botocore.session.create_loader = functools.cache(create_loader)
    ClientCreator._load_service_model = _share_service_model
    hooks.accepts_kwargs = _takes_keywords


def _share_service_model(creator: ClientCreator, service_name: str, api_version: str | None = None) -> Any:
    of_service = (service_name, api_version)
    if of_service not in _service_models:
        _service_models[of_service] = _load_service_model(creator, service_name, api_version)
    return _service_models[of_service]


def _takes_keywords(handler: Any) -> bool:
    """Look once at each function that is registered for an event. A session registers more than a hundred."""
    code = getattr(handler, "__code__", handler)
    if code not in _handlers:
        _handlers[code] = _accepts_kwargs(handler)
    return _handlers[code]


def remember_names_and_endpoints() -> None:
    """Let all sessions share the aliases of events, and each client remember the endpoint of an operation."""
    EventAliaser.__init__ = _share_aliases
    EndpointRulesetResolver.construct_endpoint = _remember_endpoint


def pass_items_on() -> None:
    """Send and return items as they are, without looking up the shape of each value, unless there are bytes in them."""
    JSONSerializer._serialize = _serialize_items
    JSONParser._handle_json_body = _parse_items


def _serialize_items(serializer: JSONSerializer, serialized: Any, value: Any, shape: Any, key: Any = None) -> None:
    if key is None and shape.name in _INPUTS:
        try:
            json.dumps(value)
        except TypeError:
            pass
        else:
            serialized.update(value)
            return
    _serialize(serializer, serialized, value, shape, key)


def _parse_items(parser: JSONParser, raw_body: bytes, shape: Any) -> Any:
    if shape is not None and shape.name in _OUTPUTS and b'"B' not in raw_body:
        return json.loads(raw_body)
    return _handle_json_body(parser, raw_body, shape)


def _add_constant(auth: SigV4Auth, request: Any) -> None:
    if type(auth) is not SigV4Auth:  # it makes the URL of a request, not a request
        _add_auth(auth, request)
        return
    if auth.credentials is None:
        raise NoCredentialsError
    request.context["timestamp"] = "20260101T000000Z"
    auth._modify_request_before_signing(request)
    scope = auth.scope(request)  # moto finds the account and the region in it
    request.headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"


def _share_aliases(aliaser: EventAliaser, *arguments: Any, **named: Any) -> None:
    _init_aliaser(aliaser, *arguments, **named)
    aliaser._alias_name_cache = _aliases


def _remember_endpoint(resolver: Any, operation_model: Any, call_args: Any, request_context: Any) -> Any:
    if ":" in str((call_args or {}).get("TableName", "")):  # an ARN may name another region or account
        return _construct_endpoint(resolver, operation_model, call_args, request_context)
    known = vars(resolver).setdefault("_known", {})
    if operation_model.name not in known:
        known[operation_model.name] = _construct_endpoint(resolver, operation_model, call_args, request_context)
    return known[operation_model.name]
