"""What people enter is read as words, as phrases in quotes, and as names that contain spaces."""

from hypothesis import given
from hypothesis import strategies as st

from engagement.search.terms import MAX_TERMS, MAX_WORDS, readings_of, words_of


def test_each_reading_has_all_words_in_their_order() -> None:
    assert readings_of("u1 Report Shared") == [
        ("u1 Report Shared",),
        ("u1", "Report Shared"),
        ("u1 Report", "Shared"),
        ("u1", "Report", "Shared"),
    ]
    assert readings_of("") == [()]
    assert readings_of("u1") == [("u1",)]
    assert readings_of("u1 u1") == [("u1 u1",), ("u1",)]


def test_quotes_keep_a_phrase_and_may_be_part_of_a_name() -> None:
    assert readings_of('"Report Shared"') == [('"Report Shared"',), ("Report Shared",)]
    assert readings_of('u1 "Report Shared"') == [('u1 "Report Shared"',), ("u1", "Report Shared")]
    assert words_of('say"hi there" 5" disk') == ['say"hi', 'there"', '5"', "disk"]
    assert words_of('"open') == ['"open']


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=12))
def test_the_readings_are_bounded_and_say_no_more_than_the_text(words: list[str]) -> None:
    text = " ".join(words)
    readings = readings_of(text)
    assert readings[0] == (text,)
    assert len(readings) <= 1 + 7 + 21 + 35
    assert len(words) <= MAX_WORDS or readings == [(text,)]
    for reading in readings:
        assert len(reading) <= MAX_TERMS
        # Repeated terms are one.
        assert {word for term in reading for word in term.split()} == set(words)
