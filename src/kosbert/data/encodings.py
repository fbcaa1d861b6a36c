"""The encoding of a text file: detected from its first bytes, or named by the user.

    detect(b"\xba\xf1\xb0\xa1 \xbf\xc2\xb4\xd9")     # 비가 온다, as Excel saves CSV on a Korean Windows: "cp949"

Detection is strict: bytes that are neither UTF-8, UTF-16 nor plainly Korean CP949 (a superset of EUC-KR) are an error
that names `--encoding`. Nothing is ever decoded with replacement characters.
"""

import codecs
from collections.abc import Iterator
from typing import IO

from kosbert.errors import UsageError

SAMPLE = 1 << 20
"""Bytes at the beginning of a file that decide its encoding."""

_LETTERS = 65_536  # characters of the sample that are counted
_BLOCK = 1 << 20  # bytes
_HANDLER = "kosbert.undecodable"

UNDECODABLE = "\udcff"
"""A lone surrogate in place of bytes that cannot be decoded, where a row with them is rejected."""

# A handler for every codec: "surrogateescape" cannot handle the ASCII bytes of UTF-16.
codecs.register_error(_HANDLER, lambda error: (UNDECODABLE, getattr(error, "end", 0)))


def check_name(name: str) -> str:
    """Return the name that Python uses for an encoding; raise if it does not exist or cannot be split into lines."""
    try:
        codec = codecs.lookup(name).name
        line_feed = "\n".encode(codec)
    except (LookupError, ValueError):
        raise UsageError(
            f"there is no encoding {name!r} (--encoding): give cp949, euc-kr, utf-8, utf-16 or another that Python has"
        ) from None
    if codec == "utf-8-sig":
        return "utf-8"
    is_stateful = codec.startswith(("iso2022", "hz"))  # a line depends on those before it
    if is_stateful or (line_feed != b"\n" and not codec.startswith("utf-16")):
        raise UsageError(f"--encoding {name} is not supported: convert the file to UTF-8")
    return codec


def detect(sample: bytes, *, is_whole: bool = True) -> str | None:
    """Return utf-8, utf-16-le, utf-16-be or cp949; None if it cannot be decided.

    Args:
        sample: the beginning of a file.
        is_whole: whether the file ends with the sample; otherwise its last character may be incomplete.
    """
    if sample.startswith(codecs.BOM_UTF8):
        return "utf-8"
    if sample.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return None
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return utf16_order(sample)
    if b"\0" in sample:  # digits, spaces and line feeds are half NUL bytes in UTF-16
        orders = [
            order
            for order in ("utf-16-le", "utf-16-be")
            if (text := _decode(sample, order, is_whole)) and "\0" not in text and _is_korean(text, or_ascii=True)
        ]
        if len(orders) == 1:
            return orders[0]
    if _decode(sample, "utf-8", is_whole) is not None or _is_damaged_utf8(sample):
        return "utf-8"
    text = _decode(sample, "cp949", is_whole)
    return "cp949" if text and _is_korean(text) else None


def utf16_order(sample: bytes) -> str:
    """Return utf-16-be or utf-16-le by the byte order mark; little-endian without one."""
    return "utf-16-be" if sample.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"


def first_undecodable(sample: bytes) -> tuple[int, int]:
    """Return the line (from 1) and the byte (from 0, in that line) where a sample stops being UTF-8."""
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        start = sample.rfind(b"\n", 0, error.start) + 1
        return sample.count(b"\n", 0, start) + 1, error.start - start
    return 1, 0


def split_lines(stream: IO[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the lines of a file with their line feeds; nothing else ends a line."""
    if not encoding.startswith("utf-16"):
        yield from stream
        return
    line_feed, rest = "\n".encode(encoding), b""
    while block := stream.read(_BLOCK):
        rest, start = rest + block, 0
        position = rest.find(line_feed)
        while position >= 0:
            if position % 2:  # the second byte of one character and the first of the next
                position = rest.find(line_feed, position + 1)
                continue
            yield rest[start : position + 2]
            start = position + 2
            position = rest.find(line_feed, start)
        rest = rest[start:]
    if rest:
        yield rest


def decode_line(line: bytes, encoding: str, *, strict: bool) -> str:
    """Decode a line; if not strict, undecodable bytes become lone surrogates, by which the row is rejected."""
    return line.decode(encoding, "strict" if strict else _HANDLER)


def _decode(sample: bytes, encoding: str, is_whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample, is_whole)
    except UnicodeDecodeError:
        return None


def _is_damaged_utf8(sample: bytes) -> bool:
    """Return whether most lines with non-ASCII bytes are UTF-8: the readers report the others one by one."""
    lines = [line for line in sample.split(b"\n")[:_LETTERS] if not line.isascii()]
    return sum(_decode(line, "utf-8", True) is not None for line in lines) * 2 > len(lines)


def _is_korean(text: str, *, or_ascii: bool = False) -> bool:
    """Return whether at least three of four letters beyond ASCII are syllables of KS X 1001, those that Korean uses.

    Chinese, Japanese and Western text decoded as CP949 becomes Hanja and syllables that no Korean word has; Hiragana
    becomes Jamo, so that Jamo (ㅋㅋ) must not outnumber syllables. Signs and emoji count neither way.
    """
    syllables = jamo = others = 0
    for character in text[:_LETTERS]:
        if "가" <= character <= "힣":
            code = character.encode("cp949")
            if code[0] >= 0xB0 and code[1] >= 0xA1:
                syllables += 1
            else:
                others += 1
        elif "ㄱ" <= character <= "ㅣ":
            jamo += 1
        elif character > "\x7f" and character.isalpha():
            others += 1
    return syllables >= max(3 * others, jamo) and (syllables > 0 or (or_ascii and text[:_LETTERS].isascii()))
