"""UBJSON: every mark, and lengths that do not agree with the bytes."""

from __future__ import annotations

import struct

import pytest

from rankgrove.importing.ubjson import parse_ubjson
from rankgrove.model.files import ModelFileError, refusing


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"Z", None),
        (b"T", True),
        (b"F", False),
        (b"i\xff", -1),
        (b"U\xff", 255),
        (b"I\x01\x00", 256),
        (b"l" + struct.pack(">i", -70_000), -70_000),
        (b"L" + struct.pack(">q", 1 << 40), 1 << 40),
        (b"d" + struct.pack(">f", 0.5), 0.5),
        (b"D" + struct.pack(">d", 0.1), 0.1),
        (b"Si\x02\xc3\xa4", "ä"),
        (b"[i\x01TZ]", [1, True, None]),
        (b"[#i\x02i\x05Si\x01a", [5, "a"]),
        (b"[$U#i\x03\x01\x02\x03", [1, 2, 3]),
        (b"[]", []),
        (b"{i\x01a[]i\x01b{}}", {"a": [], "b": {}}),
    ],
)
def test_a_value_is_read(content, value):
    assert parse_ubjson(content) == value


@pytest.mark.parametrize(
    "content",
    [
        b"", b"?", b"i", b"Si\x05ab", b"Si\xffab", b"Si\x01\xff", b"[i\x01", b"[$U#i\x09\x01",
        b"[$U", b"[$Ui\x01]", b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", b"[#L" + b"\x7f" * 8,
        b"[$Z#L" + b"\x7f" * 8, b"[#i\xff", b"{i\x01a", b"{T", b"[" * 1000, b"Sd\x00\x00\x00\x00",
    ],
)  # fmt: skip
def test_what_is_no_whole_value_is_refused(content):
    with pytest.raises(ModelFileError), refusing("model.ubj"):
        parse_ubjson(content)
