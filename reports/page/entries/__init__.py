"""Pages of the library's entries: an index, a page for each entry, and the files that the pages offer."""
