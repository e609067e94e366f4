"""Library: frozen instances with their best-known plans, bounds and proofs; see docs/library.md."""

from instances.library.collection import LIBRARY, MARK, Library
from instances.library.entry import Credit, LibraryEntry, LibraryLine
from instances.library.history import LibraryFinding

__all__ = ["LIBRARY", "MARK", "Credit", "Library", "LibraryEntry", "LibraryFinding", "LibraryLine"]
