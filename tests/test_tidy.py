"""The house style that a linter does not know."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOTS = ("harness", "backends", "mutations", "scenarios")
PRODUCT = sorted(path for root in ROOTS for path in (ROOT / root).rglob("*.py"))
EVERY = PRODUCT + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "ci").rglob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


def test_there_is_product_code_to_look_at():
    assert len(PRODUCT) > 20


@pytest.mark.parametrize("path", EVERY, ids=name_of)
def test_a_module_has_at_most_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_a_function_has_at_most_70_lines(path):
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > 70
    ]
    assert long == []


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_product_code_has_no_bare_assert(path):
    tree = ast.parse(path.read_text())
    assert [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Assert)] == []


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_cuda_is_imported_in_the_real_backend_alone(path):
    if "cupy" in path.parts:
        return
    names = [
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    ] + [
        node.module or ""
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    assert [name for name in names if name.split(".")[0] in {"cupy", "cuda", "pycuda"}] == []


def test_every_package_folder_has_an_init_and_no_source_root_has_one():
    folders = {path.parent for path in PRODUCT}
    bare = sorted(name_of(f) for f in folders if not (f / "__init__.py").exists())
    roots = [root for root in ROOTS if (ROOT / root / "__init__.py").exists()]
    assert (bare, roots) == ([], [])


def test_no_file_names_a_path_of_somebodys_machine():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    pattern = re.compile(r"(/wor[k]/|/roo[t]/|/hom[e]/[a-z])")
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        data = (ROOT / name).read_bytes()
        if b"\0" not in data and pattern.search(data.decode("utf-8", "replace")):
            found.append(name)
    assert found == []
