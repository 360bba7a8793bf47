"""Responses that came as a stream of events, put together to what they would have been at once."""

from collections import defaultdict
from typing import Any

from turnlens.collectors.importing.shapes import items, objects


def whole_response(response: object) -> dict[str, Any]:
    """The body of a response: as it is, or put together from the list of its events (OpenAI's chunks, Anthropic's events). An
    empty object where there is none."""
    if isinstance(response, list):
        return _together([event for event in map(objects, items(response)) if event is not None])  # pyright: ignore[reportUnknownArgumentType]
    return objects(response) or {}


def _together(events: list[dict[str, Any]]) -> dict[str, Any]:
    if any(isinstance(event.get("type"), str) and event["type"].startswith("message_") for event in events):
        return _of_anthropic(events)
    texts, thoughts = list[str](), list[str]()
    calls: dict[int, tuple[list[str], list[str]]] = {}
    found: dict[str, Any] = {}
    reason: Any = None
    for event in events:
        for name in ("id", "model", "usage", "timings", "error"):
            if event.get(name) is not None:
                found[name] = event[name]
        for choice in map(objects, items(event.get("choices"))[:1]):
            delta = objects((choice or {}).get("delta")) or {}
            reason = (choice or {}).get("finish_reason") or reason
            texts += [_string(delta.get("content")), _string((choice or {}).get("text"))]
            thoughts.append(_string(delta.get("reasoning_content") or delta.get("reasoning")))
            for part in map(objects, items(delta.get("tool_calls"))):
                function = objects((part or {}).get("function")) or {}
                named, arguments = calls.setdefault(_index(part or {}), ([], []))
                named.append(_string(function.get("name")))
                arguments.append(_string(function.get("arguments")))
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thinking := "".join(thoughts):
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = [
            {"function": {"name": "".join(name), "arguments": "".join(arguments)}}
            for _, (name, arguments) in sorted(calls.items())
        ]
    return found | {"choices": [{"message": message, "finish_reason": reason}]}


def _of_anthropic(events: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "message"}
    usage: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    parts: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for event in events:
        kind = event.get("type")
        message = objects(event.get("message")) or {}
        if kind == "message_start":
            found |= {name: message[name] for name in ("id", "model") if name in message}
            usage |= objects(message.get("usage")) or {}
        elif kind == "content_block_start":
            blocks[_index(event)] = dict(objects(event.get("content_block")) or {})
        elif kind == "content_block_delta":
            delta = objects(event.get("delta")) or {}
            blocks.setdefault(_index(event), {"type": "text"})
            for name, into in (("text", "text"), ("thinking", "thinking"), ("partial_json", "input_json")):
                if isinstance(delta.get(name), str):
                    parts[_index(event), into].append(delta[name])
        elif kind == "message_delta":
            delta = objects(event.get("delta")) or {}
            found["stop_reason"] = delta.get("stop_reason") or found.get("stop_reason")
            usage |= {name: value for name, value in (objects(event.get("usage")) or {}).items() if value is not None}
    for (index, into), texts in parts.items():
        blocks[index][into] = _string(blocks[index].get(into)) + "".join(texts)
    return found | {"usage": usage, "content": [blocks[index] for index in sorted(blocks)]}


def _index(of: dict[str, Any]) -> int:
    index = of.get("index")
    return index if isinstance(index, int) else 0


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
