"""Reports of mutation proofs: terminal, JSON, Markdown, and measured plans. They only consume."""
