"""A data folder whose power can be cut."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from harness.processes import Failed, program, running, until
from harness.service import temporary_folder


class Disk:
    """A mounted file system that forgets at a cut what nobody synced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_durable(self) -> None:
        """Forget nothing of what there is now."""
        os.setxattr(self.folder, "user.durable", b"1")

    def cut(self, seed: str, *processes: psutil.Process) -> None:
        """Cut the power of the disk and of the processes with all their children, and bring the
        disk back. The seed draws what it forgets."""
        victims = [
            each for process in processes for each in (process, *process.children(recursive=True))
        ]
        os.setxattr(self.folder, "user.off", seed.encode())
        # A process may have started another one meanwhile.
        while victims:
            for process in victims:
                with suppress(psutil.Error):
                    process.kill()
            _, alive = psutil.wait_procs(victims, timeout=20)
            if alive:
                raise Failed(f"Not killed: {alive}")
            victims = [process for process in psutil.process_iter() if self._uses(process)]
        self._come_back()

    def _uses(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.environ().get("EDS_DATA_DIR", "").startswith(str(self.folder))
        return False

    def _come_back(self) -> None:
        until(self._unmount, "the disk to be unmounted", 30)
        until(self.is_mounted, "the disk to come back", 60)

    def is_mounted(self) -> bool:
        return os.path.ismount(self.folder)

    def _unmount(self) -> bool:
        command = [program("umount"), str(self.folder)]
        return subprocess.run(command, capture_output=True).returncode == 0


@contextmanager
def disk(*, lies: bool = False) -> Iterator[Disk]:
    """A disk in the memory of a process; one that *lies* only says that it syncs. Needs root."""
    program("fusermount3", "fuse3")
    with temporary_folder() as folder:
        mount = folder / "disk"
        mount.mkdir()
        command = [sys.executable, "-m", "harness.forgetful_files", str(mount)]
        with running([*command, *(["--lies"] if lies else [])], folder / "disk.log"):
            mounted = Disk(mount)
            try:
                until(mounted.is_mounted, "the disk to be mounted", 30)
                yield mounted
            finally:
                mounted._unmount()
