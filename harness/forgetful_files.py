"""A file system that forgets at a power cut what nobody synced. It runs as a process:
``python -m harness.forgetful_files FOLDER``.

Everything is in the memory of the process. A write to a file lasts once the file is synced, and a
name (a creation, a rename, a removal) once its folder is. A new file or folder that is synced lasts
itself, as on ext4, XFS, and Btrfs: PostgreSQL relies on it for its tables and databases.

Of what is not synced a cut keeps what a disk might keep: each page of a file as it was, as it is,
or with only its first sectors new; each file's new or old length; and of the changes of names in
each folder the first ones. Sectors of 512 bytes are never torn: a disk promises that, and
PostgreSQL relies on it.

Two extended attributes of the top folder control it. Setting ``user.off`` to a seed turns the
power off: from then on every operation fails. When the folder is unmounted, the cut happens, and
the folder is mounted again. Setting ``user.durable`` makes all that there is durable. With
``--lies``, syncing does nothing, as on a disk that ignores it.
"""

import argparse
import errno
import os
import random
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import count
from pathlib import PurePosixPath
from typing import Any, TypeVar, cast

from mfusepy import FUSE, FuseOSError, Operations, fuse_get_context

PAGE, SECTOR = 4096, 512
Operation = TypeVar("Operation", bound=Callable[..., Any])


class Node:
    """A file, a folder, a link, or a socket."""

    def __init__(self, mode: int, owner: tuple[int, int], target: str = "") -> None:
        self.mode, self.owner, self.target = mode, owner, target
        self.accessed = self.modified = time.time_ns()

    def lose_power(self, chance: random.Random) -> None:
        """Forget some of what is not synced."""

    def sync(self) -> None:
        """Make what there is durable."""


class File(Node):
    """``before`` has the durable contents of pages that were written since, by their numbers."""

    def __init__(self, mode: int, owner: tuple[int, int]) -> None:
        super().__init__(mode, owner)
        self.content = bytearray()
        self.before: dict[int, bytes] = {}
        self.durable_length = 0

    def write(self, content: bytes, offset: int) -> None:
        end = offset + len(content)
        self._keep_pages(min(offset, len(self.content)), end)
        if offset > len(self.content):
            self.content.extend(bytes(offset - len(self.content)))
        self.content[offset:end] = content

    def truncate(self, length: int) -> None:
        current = len(self.content)
        self._keep_pages(min(length, current), max(length, current))
        if length < current:
            del self.content[length:]
        else:
            self.content.extend(bytes(length - current))

    def _keep_pages(self, start: int, end: int) -> None:
        for page in range(start // PAGE, -(-end // PAGE)):
            if page not in self.before:
                self.before[page] = bytes(self.content[page * PAGE : (page + 1) * PAGE])

    def sync(self) -> None:
        self.before.clear()
        self.durable_length = len(self.content)

    def lose_power(self, chance: random.Random) -> None:
        length = chance.choice([len(self.content), self.durable_length])
        for page, before in self.before.items():
            start = page * PAGE
            content = bytes(self.content[start : start + PAGE]).ljust(PAGE, b"\0")
            sectors = chance.choice([0, chance.randrange(PAGE // SECTOR + 1), PAGE // SECTOR])
            cut = sectors * SECTOR
            self.content[start : start + PAGE] = content[:cut] + before.ljust(PAGE, b"\0")[cut:]
        del self.content[length:]
        self.content.extend(bytes(length - len(self.content)))
        self.sync()


class Folder(Node):
    """``changes`` has, for each change since the last sync, what the names meant before it."""

    def __init__(self, mode: int, owner: tuple[int, int]) -> None:
        super().__init__(mode, owner)
        self.nodes: dict[str, Node] = {}
        self.changes: list[dict[str, Node | None]] = []

    def change(self, names: dict[str, Node | None]) -> None:
        """Let the names mean these nodes; None removes a name."""
        self.changes.append({name: self.nodes.get(name) for name in names})
        self._set(names)

    def _set(self, names: dict[str, Node | None]) -> None:
        for name, node in names.items():
            if node is None:
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = node

    def sync(self) -> None:
        self.changes.clear()

    def sync_creation(self, name: str) -> None:
        """Make it durable that the name is there."""
        self.changes = [change for change in self.changes if change != {name: None}]

    def lose_power(self, chance: random.Random) -> None:
        lasting = chance.choice([0, chance.randint(0, len(self.changes)), len(self.changes)])
        while len(self.changes) > lasting:
            self._set(self.changes.pop())
        self.sync()


def _with_power(operation: Operation) -> Operation:
    """Operations come one at a time, and fail without power."""

    @wraps(operation)
    def guarded(self: "ForgetfulFiles", *arguments: Any, **options: Any) -> Any:
        with self.lock:
            if self.seed is not None:
                raise FuseOSError(errno.EIO)
            return operation(self, *arguments, **options)

    return cast(Operation, guarded)


class ForgetfulFiles(Operations):  # type: ignore[misc]
    """What the kernel asks for, by path or by the number of an open file."""

    use_ns = True

    def __init__(self, *, lies: bool) -> None:
        self.lock = threading.Lock()
        self.lies = lies
        self.seed: str | None = None
        self.top = Folder(stat.S_IFDIR | 0o711, (os.getuid(), os.getgid()))
        self.open_nodes: dict[int, Node] = {}
        self.numbers = count(1)

    # --- The power ----------------------------------------------------------------------------

    def setxattr(self, path: str, name: str, value: bytes, flags: int, position: int = 0) -> int:
        with self.lock:
            if name == "user.off":
                self.seed = value.decode()
            elif name == "user.durable":
                for node in self._all():
                    node.sync()
            else:
                raise FuseOSError(errno.ENOTSUP)
        return 0

    def come_back(self) -> None:
        """The power is back, and what was not synced is lost."""
        chance = random.Random(self.seed)
        for node in self._all():
            node.lose_power(chance)
        self.seed = None
        self.open_nodes.clear()

    def _all(self) -> Iterator[Node]:
        """All nodes that have a name; those of a folder after the folder."""
        nodes: list[Node] = [self.top]
        while nodes:
            node = nodes.pop()
            yield node
            if isinstance(node, Folder):
                nodes += node.nodes.values()

    # --- Looking ------------------------------------------------------------------------------

    def _find(self, path: str) -> Node:
        node: Node = self.top
        for name in PurePosixPath(path).parts[1:]:
            if not isinstance(node, Folder):
                raise FuseOSError(errno.ENOTDIR)
            if name not in node.nodes:
                raise FuseOSError(errno.ENOENT)
            node = node.nodes[name]
        return node

    def _folder(self, path: str) -> tuple[Folder, str]:
        """The folder of the path, and the path's name in it."""
        folder = self._find(str(PurePosixPath(path).parent))
        if not isinstance(folder, Folder):
            raise FuseOSError(errno.ENOTDIR)
        return folder, PurePosixPath(path).name

    def _file(self, fh: int) -> File:
        node = self.open_nodes.get(fh)
        if not isinstance(node, File):
            raise FuseOSError(errno.EBADF)
        return node

    @_with_power
    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        node = self.open_nodes[fh] if fh in self.open_nodes else self._find(path)
        length = len(node.content) if isinstance(node, File) else len(node.target)
        return {
            "st_mode": node.mode,
            "st_nlink": 2 if isinstance(node, Folder) else 1,
            "st_uid": node.owner[0],
            "st_gid": node.owner[1],
            "st_size": length,
            "st_blocks": -(-length // SECTOR),
            "st_atime": node.accessed,
            "st_mtime": node.modified,
            "st_ctime": node.modified,
        }

    @_with_power
    def readdir(self, path: str, fh: int) -> list[str]:
        node = self._find(path)
        return [".", "..", *(node.nodes if isinstance(node, Folder) else ())]

    @_with_power
    def readlink(self, path: str) -> str:
        return self._find(path).target

    @_with_power
    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._file(fh).content[offset : offset + size])

    def statfs(self, path: str) -> dict[str, int]:
        return {"f_bsize": PAGE, "f_frsize": PAGE, "f_blocks": 1 << 22, "f_bfree": 1 << 21} | {
            "f_bavail": 1 << 21,
            "f_namemax": 255,
        }

    # --- Opening and syncing ------------------------------------------------------------------

    def _open(self, node: Node) -> int:
        fh = next(self.numbers)
        self.open_nodes[fh] = node
        return fh

    @_with_power
    def open(self, path: str, flags: int) -> int:
        node = self._find(path)
        if flags & os.O_TRUNC and isinstance(node, File):
            node.truncate(0)
        return self._open(node)

    @_with_power
    def opendir(self, path: str) -> int:
        return self._open(self._find(path))

    def release(self, path: str, fh: int) -> int:
        self.open_nodes.pop(fh, None)
        return 0

    releasedir = release

    @_with_power
    def fsync(self, path: str, datasync: int, fh: int) -> int:
        if not self.lies:
            self.open_nodes[fh].sync()
            for folder in PurePosixPath(path).parents:
                parent, name = self._find(str(folder)), PurePosixPath(path).relative_to(folder)
                if isinstance(parent, Folder):
                    parent.sync_creation(name.parts[0])
        return 0

    fsyncdir = fsync

    # --- Changing -----------------------------------------------------------------------------

    def _add(self, path: str, node: Node) -> Node:
        folder, name = self._folder(path)
        if name in folder.nodes:
            raise FuseOSError(errno.EEXIST)
        folder.change({name: node})
        return node

    @staticmethod
    def _caller() -> tuple[int, int]:
        user, group, _ = fuse_get_context()
        return user, group

    @_with_power
    def create(self, path: str, mode: int, flags: int) -> int:
        return self._open(self._add(path, File(stat.S_IFREG | mode, self._caller())))

    @_with_power
    def mknod(self, path: str, mode: int, dev: int) -> int:
        kind = File if stat.S_ISREG(mode) else Node
        self._add(path, kind(mode, self._caller()))
        return 0

    @_with_power
    def mkdir(self, path: str, mode: int) -> int:
        self._add(path, Folder(stat.S_IFDIR | mode, self._caller()))
        return 0

    @_with_power
    def symlink(self, target: str, source: str) -> int:
        self._add(target, Node(stat.S_IFLNK | 0o777, self._caller(), source))
        return 0

    @_with_power
    def link(self, target: str, source: str) -> int:
        self._add(target, self._find(source))
        return 0

    @_with_power
    def unlink(self, path: str) -> int:
        folder, name = self._folder(path)
        self._find(path)
        folder.change({name: None})
        return 0

    @_with_power
    def rmdir(self, path: str) -> int:
        folder, name = self._folder(path)
        node = self._find(path)
        if isinstance(node, Folder) and node.nodes:
            raise FuseOSError(errno.ENOTEMPTY)
        folder.change({name: None})
        return 0

    @_with_power
    def rename(self, old: str, new: str) -> int:
        node = self._find(old)
        (source, old_name), (target, new_name) = self._folder(old), self._folder(new)
        if source is target:
            source.change({old_name: None, new_name: node})
        else:
            target.change({new_name: node})
            source.change({old_name: None})
        return 0

    @_with_power
    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        file = self._file(fh)
        file.write(data, offset)
        file.modified = time.time_ns()
        return len(data)

    @_with_power
    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        node = self._find(path)
        if isinstance(node, File):
            node.truncate(length)
        return 0

    @_with_power
    def chmod(self, path: str, mode: int) -> int:
        node = self._find(path)
        node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        return 0

    @_with_power
    def chown(self, path: str, uid: int, gid: int) -> int:
        node = self._find(path)
        user, group = node.owner
        node.owner = (user if uid == -1 else uid, group if gid == -1 else gid)
        return 0

    @_with_power
    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        node = self._find(path)
        node.accessed, node.modified = times or (time.time_ns(), time.time_ns())
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--lies", action="store_true")
    options = parser.parse_args()
    files = ForgetfulFiles(lies=options.lies)
    while True:
        FUSE(
            files,
            options.folder,
            foreground=True,
            allow_other=True,
            default_permissions=True,
            hard_remove=True,
        )
        if files.seed is None:
            return
        files.come_back()


if __name__ == "__main__":
    main()
