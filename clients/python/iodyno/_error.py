class Error(Exception):
    """A notebook can't be read, or a request can't be met. The message has the remedy."""
