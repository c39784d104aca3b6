"""Each proof has planted bugs, and each of them still fits the code that it breaks."""

import re
from pathlib import Path

import pytest

from proofs import planted_bugs

ROOT = Path(__file__).resolve().parents[2]
BUGS = sorted({bug for bugs in planted_bugs.BUGS.values() for bug in bugs})
# It plants bugs, and has none itself.
WITHOUT = {"planted_bugs"}
# Lines of a patch that the code has, and others that say where.
_HUNK = re.compile(r"^@@ .*\n((?:[ +\\-].*\n)+)", re.MULTILINE)
_FILE = re.compile(r"^--- a/(.+)$", re.MULTILINE)


def test_each_proof_has_two_bugs() -> None:
    proofs = {
        path.stem for path in (ROOT / "proofs").glob("*.py") if "run_command(" in path.read_text()
    }
    few = {name for name in proofs - WITHOUT if len(planted_bugs.BUGS.get(name, ())) < 2}
    assert few == set()
    assert planted_bugs.SHORT.keys() == planted_bugs.BUGS.keys() <= proofs


def test_each_patch_is_planted() -> None:
    patches = {patch.stem for patch in planted_bugs.PATCHES.iterdir()}
    assert patches == set(BUGS)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_fits_the_code(bug: str) -> None:
    """As ``git apply --check`` does, without a program: each hunk's old lines are in its file."""
    parts = re.split(
        r"^diff --git .*\n", planted_bugs.patch_of(bug).read_text(), flags=re.MULTILINE
    )
    for part in parts[1:]:
        path = _FILE.search(part)
        assert path is not None
        code, place = (ROOT / path[1]).read_text(), 0
        hunks = _HUNK.findall(part)
        assert hunks
        for hunk in hunks:
            old = "".join(line[1:] for line in hunk.splitlines(True) if line[0] in " -")
            place = code.find(old, place)
            assert place >= 0, f"{path[1]} no longer has:\n{old}"
