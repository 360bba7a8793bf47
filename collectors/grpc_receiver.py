"""The gRPC side: OTLP's TraceService and MetricsService, and an answer for logs.

Handlers take raw bytes, so that a malformed message gets our answer and not the library's. Each call waits in a thread of its
own until its rows are on disk; what the threads hold is bounded by the writer's reservations.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, cast

import grpc

from turnlens.collectors import wire
from turnlens.collectors._untyped import error_details_pb2, status_pb2
from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import (
    BusyError,
    CollectorError,
    MalformedError,
    PortInUseError,
    TooLargeError,
)
from turnlens.collectors.guard import authorised
from turnlens.collectors.ingest import LOGS_NOT_STORED, SIGNALS, Ingest, Signal

_LOGS_SERVICE = "opentelemetry.proto.collector.logs.v1.LogsService"
_THREADS = 64
# Above our own limit, so that a body that is only somewhat too large gets our message. Far above, the library refuses it with
# the same code before it is read.
_SLACK_BYTES = 1 << 20


class GrpcReceiver:
    """Listens from the start; ``port`` is the real one."""

    def __init__(self, ingest: Ingest, counters: Counters, host: str, port: int, token: str | None) -> None:
        self._ingest = ingest
        self._counters = counters
        self._token = token
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="turnlens-grpc")
        self._server = grpc.server(
            self._threads,
            options=[
                ("grpc.max_receive_message_length", ingest.max_body_bytes + _SLACK_BYTES),
                # Linux would let a second collector share the port, and each get half of the spans.
                ("grpc.so_reuseport", 0),
            ],
        )
        for signal in SIGNALS:
            self._add(signal.service, self._export(signal))
        self._add(_LOGS_SERVICE, self._logs)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise PortInUseError(
                f"gRPC cannot listen on {address}. Choose another port with --grpc-port (TURNLENS_GRPC_PORT)."
            ) from error
        self._server.start()

    def _add(self, service: str, handle: Callable[[bytes, grpc.ServicerContext], bytes]) -> None:
        # Without a deserializer the handler gets bytes. The stubs cannot tell its types then.
        method = cast("grpc.RpcMethodHandler[bytes, bytes]", grpc.unary_unary_rpc_method_handler(handle))  # pyright: ignore[reportUnknownMemberType]
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": method}),))

    def stop(self, grace_seconds: float) -> None:
        """Take no more calls; those that run have ``grace_seconds`` to be answered."""
        self._server.stop(grace_seconds).wait()
        self._threads.shutdown()

    def _export(self, signal: Signal) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def export(body: bytes, context: grpc.ServicerContext) -> bytes:
            self._authorise(context)
            try:
                accepted = self._ingest.accept(self._ingest.reserve(len(body)), signal, body, wire.PROTOBUF)
                accepted.stored.result()
            except CollectorError as error:
                self._counters.add("requests_failed")
                _abort(context, error)
            return accepted.answer.SerializeToString()

        return export

    def _logs(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        self._authorise(context)
        context.abort(grpc.StatusCode.UNIMPLEMENTED, LOGS_NOT_STORED)

    def _authorise(self, context: grpc.ServicerContext) -> None:
        if self._token is None:
            return
        metadata: dict[str, Any] = {item[0]: item[1] for item in context.invocation_metadata()}
        given = metadata.get("authorization", "")
        if not isinstance(given, str) or not authorised(given, self._token):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "send the collector's token as metadata: authorization: Bearer ...")


def _abort(context: grpc.ServicerContext, error: CollectorError) -> NoReturn:
    if isinstance(error, BusyError):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = error.retry_after_seconds
        status = status_pb2.Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message=str(error))
        status.details.add().Pack(retry)
        # The second is what OTLP specifies; the Python exporter looks for the first.
        context.set_trailing_metadata(
            (("google.rpc.retryinfo-bin", retry.SerializeToString()), ("grpc-status-details-bin", status.SerializeToString()))
        )
        context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
    if isinstance(error, MalformedError):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    if isinstance(error, TooLargeError):
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
    context.abort(grpc.StatusCode.INTERNAL, str(error))
