"""Hostile plugins by kind; each says in ``ENDS`` how its run must end, and in its docstring what it tries."""
