"""The scenarios that ship with Capturegate, as files."""
