"""KV pages: who holds which, and which hold a prefix that somebody else may share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capturegate_reference.inputs import NULL_PAGE

Prefix = tuple[int, ...]


class PageTable:
    """All pages of a server but the null page.

    A page that holds a whole prefix's end is published under the prefix's tokens. It stays there
    when its last holder lets go of it, and is evicted, the longest unused first, when pages are
    wanted.

    Attributes:
        evictions: how many published pages were taken for others.
    """

    def __init__(self, pages: int, page_tokens: int, on_evict: Callable[[int], None]) -> None:
        self.evictions = 0
        self._page_tokens = page_tokens
        self._on_evict = on_evict
        self._free = [page for page in range(pages - 1, -1, -1) if page != NULL_PAGE]
        self._total = len(self._free)
        self._holders: dict[int, int] = {}
        self._published: dict[Prefix, int] = {}
        self._prefix_of: dict[int, Prefix] = {}

    @property
    def total(self) -> int:
        """How many pages there are."""
        return self._total

    def needed(self, tokens: int) -> int:
        """How many pages so many tokens fill, the last one in part."""
        return -(-tokens // self._page_tokens)

    def match(self, tokens: Sequence[int]) -> list[int]:
        """The published pages of the longest prefix, from the first on."""
        found = []
        for end in range(self._page_tokens, len(tokens) + 1, self._page_tokens):
            page = self._published.get(tuple(tokens[:end]))
            if page is None:
                break
            found.append(page)
        return found

    def share(self, pages: Sequence[int]) -> None:
        """Hold published pages once more; they count as used just now."""
        for page in pages:
            self._holders[page] = self._holders.get(page, 0) + 1
            prefix = self._prefix_of[page]
            self._published[prefix] = self._published.pop(prefix)

    def take(self, count: int) -> list[int] | None:
        """Hold so many pages of one's own; None, and nothing changed, when there are too few."""
        unused = [page for page in self._published.values() if page not in self._holders]
        if count > len(self._free) + len(unused):
            return None
        for page in unused[: max(0, count - len(self._free))]:
            del self._published[self._prefix_of.pop(page)]
            self._free.append(page)
            self.evictions += 1
            self._on_evict(page)
        taken = [self._free.pop() for _ in range(count)]
        self._holders.update(dict.fromkeys(taken, 1))
        return taken

    def publish(self, tokens: Sequence[int], page: int) -> bool:
        """Let others find a full page under its prefix; whether it was the first of it."""
        prefix = tuple(tokens)
        if prefix in self._published or page in self._prefix_of:
            return False
        self._published[prefix] = page
        self._prefix_of[page] = prefix
        return True

    def release(self, pages: Sequence[int]) -> None:
        """Let go of pages."""
        for page in pages:
            self._holders[page] -= 1
            if self._holders[page] == 0:
                del self._holders[page]
                if page not in self._prefix_of:
                    self._free.append(page)
