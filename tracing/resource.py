"""The engine's facts, as the OpenTelemetry resource of all that its recorder sends."""

import os
import uuid

from opentelemetry.sdk.resources import Resource

from turnlens.tracing import conventions

Fact = str | int | float | bool


def engine_resource(
    engine: str,
    replica: str,
    slots: int | None,
    pool_tokens: int | None,
    unit_tokens: int,
    started_ns: int,
    attributes: dict[str, Fact],
    instance: str | None = None,
) -> Resource:
    """One engine start, by its id or with a new one. What the environment says of the process stands beside it."""
    facts: dict[str, Fact] = {
        "service.instance.id": instance or str(uuid.uuid4()),
        "turnlens.engine": engine,
        "turnlens.replica": replica,
        "turnlens.unit_tokens": unit_tokens,
        "turnlens.started_ns": started_ns,
        "turnlens.schema": conventions.SCHEMA,
    }
    if slots is not None:
        facts["turnlens.slots"] = slots
    if pool_tokens is not None:
        facts["turnlens.pool_tokens"] = pool_tokens
    facts |= {f"turnlens.{name}": value for name, value in attributes.items()}
    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or os.environ.get("OTEL_SERVICE_NAME")
    if not named:
        facts["service.name"] = engine
    return Resource.create(facts)
