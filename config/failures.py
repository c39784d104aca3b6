"""What keeps a command from doing its work, in words for the person who typed it."""


class StartFailed(Exception):
    """The command cannot go on; the message is one sentence that says why and what to do."""
