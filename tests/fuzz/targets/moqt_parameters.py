"""Message parameters of both drafts; the first byte chooses draft and message."""

from __future__ import annotations

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.parameters import ParametersCodec, Scope
from laps_wire.moqt.versions import Draft

EXTENSIONS = frozenset({0x38, 0x39})
CODECS = [ParametersCodec(Draft.D16, scope, EXTENSIONS) for scope in Scope] + [
    ParametersCodec(Draft.D18, scope) for scope in Scope
]


def one_input(data: bytes) -> None:
    """Read parameters; they must read again as themselves."""
    if not data:
        return
    codec = CODECS[data[0] % len(CODECS)]
    integers = codec.draft.integers
    try:
        parameters = codec.read(Reader(data[1:], integers=integers, partial=True), "parameters")
    except (IncompleteError, RemoteError):
        return
    writer = Writer(integers=integers)
    codec.write(writer, parameters, "parameters")
    if codec.read(Reader(writer.getvalue(), integers=integers), "parameters") != parameters:
        raise AssertionError(f"{writer.getvalue().hex()} is not {parameters!r}")


def seeds() -> list[bytes]:
    """A SUBSCRIBE with everything, an answer, an update and a fetch."""
    chosen = {(codec.draft, codec.scope): index for index, codec in enumerate(CODECS)}
    examples = [
        (
            Draft.D16,
            Scope.SUBSCRIBE,
            "08 02 5388 01 02 0201 00 03 030074 0d 01 10 40c8 01 04 040a0314 01 02 10 00",
        ),
        (
            Draft.D18,
            Scope.SUBSCRIBE,
            "08 02 9388 01 02 0201 00 03 030074 0d 01 10 c8 01 04 040a030a 01 02 10 00",
        ),
        (Draft.D16, Scope.SUBSCRIBE_OK, "02 08 1e 01 02 0a03"),
        (Draft.D16, Scope.PUBLISH_NAMESPACE, "02 09 01 ff 07 07"),
        (Draft.D16, Scope.FETCH, "02 38 07 01 02 6162"),
        (Draft.D18, Scope.SUBSCRIBE_OK, "02 08 1e 01 0a03"),
        (Draft.D18, Scope.REQUEST_UPDATE, "03 02 00 04 01 2e 02 01 61 01 62"),
        (Draft.D18, Scope.FETCH, "02 0a 812c 18 02"),
    ]
    return [bytes([chosen[draft, scope]]) + bytes.fromhex(text) for draft, scope, text in examples]
