"""Who may connect to the embedded PostgreSQL: users of this machine, by their name there.

The kernel tells the server which user is at the other end of its socket. It believes no name that a
client sends.
"""

import os
import pwd
from contextlib import suppress
from pathlib import Path

RULES, NAMES = "eds_hba.conf", "eds_ident.conf"
_RULES = """\
# Written at each start of the service.
local all all peer map=eds
local replication all peer map=eds
"""
_HEAD = "# Written at each start of the service: who may connect, with any role.\n"


def write_rules(folder: Path, server: int | None = None) -> dict[str, str]:
    """Write into the data folder who may connect, and return the options that make it count.

    These are the user of this process, root, and *server*, the id of the server's user. A user
    without a name, as some containers have, cannot be told to the server, which then trusts
    everybody who may open its socket: its own user and root.
    """
    try:
        users = {pwd.getpwuid(user).pw_name for user in (os.geteuid(), server) if user is not None}
    except KeyError:
        return {}
    with suppress(KeyError):
        users.add(pwd.getpwuid(0).pw_name)
    names = _HEAD + "".join(f"eds {_quoted(name)} all\n" for name in sorted(users))
    for name, content in ((RULES, _RULES), (NAMES, names)):
        _write(folder / name, content, server)
    return {"hba_file": str(folder / RULES), "ident_file": str(folder / NAMES)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _write(path: Path, content: str, owner: int | None) -> None:
    # A disk that is full keeps no service from starting that has started before.
    with suppress(OSError):
        if path.read_text() == content:
            return
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(content)
    temporary.chmod(0o600)
    if owner is not None:
        os.chown(temporary, owner, -1)
    temporary.replace(path)
