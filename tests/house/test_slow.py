"""Slow tests are those that start programs, and a test that starts one must say so."""

import subprocess

import pytest

from tests.slow import FOLDERS


def test_a_test_that_starts_a_program_must_be_marked() -> None:
    with pytest.raises(AssertionError, match="Mark the test with"):
        subprocess.run(["true"])


@pytest.mark.slow
def test_a_marked_test_starts_programs() -> None:
    assert subprocess.run(["true"]).returncode == 0


def test_the_folders_of_slow_tests_exist(pytestconfig: pytest.Config) -> None:
    assert all((pytestconfig.rootpath / folder).is_dir() for folder in FOLDERS)
