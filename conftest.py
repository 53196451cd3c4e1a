"""README and docs are tests: their Python, YAML and console examples have to be true."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parent


def run_console(example):
    """Run each `$ ` line at the repository's root and compare what it prints.

    `...` stands for anything. Figures of time are never compared.
    """
    for block in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
        command, _, wanted = block.partition("\n")
        environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        ran = subprocess.run(
            shlex.split(command), cwd=ROOT, env=environment, capture_output=True, text=True
        )
        printed = "\n".join(line.rstrip() for line in (ran.stdout + ran.stderr).splitlines())
        pattern = ".*?".join(re.escape(part) for part in wanted.strip().split("..."))
        if not re.fullmatch(pattern, printed.strip(), flags=re.DOTALL):
            return f"$ {command}\nprinted\n{printed}\ninstead of\n{wanted}"
    return None


def load_yaml(example):
    """A YAML example has to load."""
    yaml.safe_load(example.parsed)


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(),
        CodeBlockParser("console", run_console),
        CodeBlockParser("yaml", load_yaml),
        SkipParser(),
    ],
    patterns=["README.md", "docs/*.md"],
).pytest()
