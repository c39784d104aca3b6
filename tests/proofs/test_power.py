"""The disk of ``proofs.power`` forgets what nobody synced and nothing else, and the service's own
files survive it."""

import json
import os
import random
import shutil
import stat
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from core import durable_files
from harness.forgetful_files import PAGE, SECTOR, File, Folder, ForgetfulFiles
from harness.power import Disk, disk

OWNER = (0, 0)


def a_file(content: bytes) -> File:
    file = File(stat.S_IFREG, OWNER)
    file.write(content, 0)
    file.sync()
    return file


def test_a_cut_keeps_what_is_synced_and_of_each_other_page_some_sectors() -> None:
    contents = set()
    for seed in range(200):
        file = a_file(b"a" * 3 * PAGE)
        file.write(b"b" * PAGE, PAGE)
        file.lose_power(random.Random(seed))
        first, second, third = (
            bytes(file.content[number * PAGE : (number + 1) * PAGE]) for number in range(3)
        )
        assert first == third == b"a" * PAGE
        new = second.count(b"b")
        assert second == b"b" * new + b"a" * (PAGE - new) and new % SECTOR == 0
        contents.add(new)
    assert contents == set(range(0, PAGE + 1, SECTOR))


@pytest.mark.parametrize("length", [100, 2 * PAGE + 100])
def test_a_cut_takes_back_a_length_that_is_not_synced(length: int) -> None:
    lengths = set()
    for seed in range(50):
        file = a_file(b"a" * PAGE)
        file.truncate(length)
        file.lose_power(random.Random(seed))
        lengths.add(len(file.content))
        assert set(file.content[:100]) == {ord("a")}
        if len(file.content) == PAGE:
            assert file.content.count(b"a") == PAGE or length < PAGE
    assert lengths == {length, PAGE}


def test_a_cut_takes_back_the_last_changes_of_names() -> None:
    names = set()
    for seed in range(100):
        folder = Folder(stat.S_IFDIR, OWNER)
        old, new = a_file(b"old"), a_file(b"new")
        folder.change({"secrets": old})
        folder.sync()
        folder.change({"new": new})
        folder.change({"new": None, "secrets": new})
        folder.lose_power(random.Random(seed))
        names.add(tuple((name, node is new) for name, node in sorted(folder.nodes.items())))
    assert names == {
        (("secrets", False),),
        (("new", True), ("secrets", False)),
        (("secrets", True),),
    }


def test_a_folder_that_is_synced_lasts_itself() -> None:
    for seed in range(20):
        files = ForgetfulFiles(lies=False)
        files.mkdir("/base", 0o700)
        files.mkdir("/base/1", 0o700)
        files.mkdir("/base/1/version", 0o700)
        files.mkdir("/base/2", 0o700)
        files.fsyncdir("/base/1", 0, files.opendir("/base/1"))
        files.setxattr("/", "user.off", str(seed).encode(), 0)
        files.come_back()
        assert "version" in files.readdir("/base/1", 0)


def test_a_new_file_that_is_synced_has_its_name_and_a_renamed_one_may_have_its_old_one() -> None:
    names = set()
    for seed in range(50):
        files = ForgetfulFiles(lies=False)
        files.mkdir("/1", 0o700)
        with patch("harness.forgetful_files.fuse_get_context", return_value=(0, 0, 1)):
            new, temporary = (files.create(f"/1/{name}", 0o600, 0) for name in ("new", "temporary"))
        files.fsync("/1/new", 0, new)
        files.fsync("/1/temporary", 0, temporary)
        files.rename("/1/temporary", "/1/renamed")
        files.fsync("/1/renamed", 0, temporary)
        files.setxattr("/", "user.off", str(seed).encode(), 0)
        files.come_back()
        names.add(tuple(sorted(files.readdir("/1", 0)[2:])))
    assert names == {("new", "temporary"), ("new", "renamed")}


def test_nothing_works_without_power() -> None:
    files = ForgetfulFiles(lies=False)
    files.mkdir("/data", 0o700)
    files.setxattr("/", "user.off", b"1", 0)
    with pytest.raises(OSError, match="Input/output error"):
        files.readdir("/data", 0)
    files.come_back()
    assert files.readdir("/", 0)[:2] == [".", ".."]


@pytest.fixture(scope="module")
def mounted() -> Iterator[Disk]:
    if os.geteuid() or not os.path.exists("/dev/fuse") or not shutil.which("fusermount3"):
        pytest.skip("A file system of our own needs root, /dev/fuse, and fusermount3.")
    with disk() as mounted_disk:
        yield mounted_disk


@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_is_written_durably_is_whole_after_a_cut(mounted: Disk, seed: int) -> None:
    folder = mounted.folder / f"folder-{seed}"
    folder.mkdir()
    durable_files.sync_folder(mounted.folder)
    assert durable_files.create(folder / "secrets", json.dumps({"key": "a" * 9000}))
    assert not durable_files.create(folder / "secrets", "another one")
    durable_files.replace(folder / "credentials", "old")
    durable_files.replace(folder / "credentials", "new")
    (folder / "forgotten").write_text("x" * 9000)
    mounted.cut(str(seed))
    assert json.loads((folder / "secrets").read_text()) == {"key": "a" * 9000}
    assert (folder / "credentials").read_text() == "new"
    assert stat.S_IMODE((folder / "secrets").stat().st_mode) == 0o600


def test_what_nobody_synced_is_lost_in_some_cuts(mounted: Disk) -> None:
    folder = mounted.folder / "lost"
    folder.mkdir()
    durable_files.sync_folder(mounted.folder)
    outcomes = set()
    for seed in range(20):
        path = folder / str(seed)
        path.write_text("short")
        mounted.cut(str(seed))
        outcomes.add(path.exists() and path.read_text() == "short")
    assert outcomes == {False, True}
