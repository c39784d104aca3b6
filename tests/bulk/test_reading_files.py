"""Files of lines are read in pieces, and from any line on, with the same result."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingestion.bulk import files
from ingestion.bulk.files import MAX_LINE_BYTES, LineReader, UnreadableFile
from tests.bulk.lines import opened


def batches(
    content: bytes, position: int = 0, number: int = 0
) -> Iterator[tuple[LineReader, list[bytes | None]]]:
    source = LineReader(opened(content), position, number)
    while batch := source.read_batch():
        yield source, batch


def read(content: bytes, position: int = 0, number: int = 0) -> list[bytes | None]:
    return [line for _, batch in batches(content, position, number) for line in batch]


pieces = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=12)


@given(pieces, st.booleans(), st.booleans(), st.integers(1, 20), st.integers(1, 5))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_are_the_same_however_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
    lines: list[bytes],
    ends_with_a_line_end: bool,
    packed: bool,
    chunk: int,
    enough: int,
) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(files, "MIN_BATCH_LINES", enough)
    # What looks like gzip or begins with a mark is another test's.
    lines = [b"{" + line for line in lines]
    content = b"\n".join(lines) + (b"\n" if lines and ends_with_a_line_end else b"")
    data = gzip.compress(content, mtime=0) if packed else content
    assert read(data) == lines
    for source, batch in batches(data):
        # Whoever goes on here misses nothing and reads nothing twice.
        assert len(batch) > 0
        assert read(data, source.position, source.number) == lines[source.number :]


@pytest.mark.parametrize("chunk", [1000, MAX_LINE_BYTES, 3 * MAX_LINE_BYTES])
def test_a_line_that_is_too_long_costs_no_other(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk)
    long = b"x" * (MAX_LINE_BYTES + 1)
    assert read(b"a\n" + long + b"\nb\n" + 3 * long + b"\nc") == [b"a", None, b"b", None, b"c"]
    assert read(long) == [None]
    assert read(b"x" * MAX_LINE_BYTES + b"\n") == [b"x" * MAX_LINE_BYTES]


def test_a_byte_order_mark_is_skipped() -> None:
    assert read(b"\xef\xbb\xbf{}\n\xef\xbb\xbf") == [b"{}", b"\xef\xbb\xbf"]


def test_several_gzip_members_are_one_file() -> None:
    assert read(gzip.compress(b"a\nb", mtime=0) + gzip.compress(b"c\nd\n", mtime=0)) == [
        b"a",
        b"bc",
        b"d",
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(b"a\n" * 1000, mtime=0)[:-9], "ends too early"),
        (gzip.compress(b"a\n", mtime=0)[:-8] + bytes(8), "damaged"),
    ],
)
def test_damaged_gzip_is_said_to_be_damaged(content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFile, match=reason):
        read(content)


def test_a_file_that_shrank_cannot_be_gone_on_with() -> None:
    with pytest.raises(UnreadableFile, match="shorter than when"):
        read(b"a\nb\n", position=100)


def test_a_file_is_known_by_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", 10)

    def digest(name: str, content: bytes) -> bytes:
        path = tmp_path / name
        path.write_bytes(content)
        return files.file_digest(path)

    content = bytes(range(100))
    expected_digest = digest("a", content)
    assert digest("b", content) == expected_digest
    others = [content + b"x", b"x" + content[1:], content[:-1] + b"x", b"", b"x"]
    others.append(content[:52] + b"x" + content[53:])
    assert len({expected_digest, *(digest("c", other) for other in others)}) == len(others) + 1
