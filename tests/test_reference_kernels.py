"""The kernels: NumPy bodies against plain arithmetic, CUDA bodies against NumPy bodies."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from capturegate.backend import Access, Kernel
from capturegate_reference import attention, experts, kernels, norms, routing

EVERY = {
    kernel.name: kernel
    for module in (kernels, attention, experts, norms, routing)
    for kernel in vars(module).values()
    if isinstance(kernel, Kernel)
}

EMULATION = """
#include <math.h>
#define __global__
extern "C" { struct Index { int x; } blockIdx, blockDim = {1}, threadIdx; }
"""


def arguments():
    """For each kernel its arguments: three rows, poisoned outputs, two or more of everything."""
    random = np.random.default_rng(7)

    def floats(*shape):
        return random.standard_normal(shape, np.float32)

    def out(*shape, dtype=np.float32):
        return np.full(shape, -7, dtype)

    def ids(*values):
        return np.array(values, np.int32)

    tables, lengths = np.array([[4, 1, 3], [2, 5, 0]], np.int32), ids(9, 4, 1)
    routed = np.array([[0, 3], [3, 1], [2, 0]], np.int32)
    return {
        "rope_table": (ids(5, 0, 2), floats(6, 4), floats(6, 4), out(3, 4), out(3, 4), 4, 12),
        "embed": (ids(1, 8, 1), floats(9, 5), out(3, 5), 5, 15),
        "rms_norm": (floats(3, 8), floats(4), out(3, 8), 4, 1e-6, 6),
        "linear": (floats(3, 5), floats(5, 7), out(3, 7), 5, 7, 21),
        "rope": (floats(3, 16), floats(3, 4), floats(3, 4), out(3, 16), 2, 4, 24),
        "store_kv": (floats(3, 4), floats(3, 4), ids(7, 0, 3), floats(8, 4), floats(8, 4), 4, 12),
        "silu_mul": (floats(3, 5), floats(3, 5), out(3, 5), 15),
        "add": (floats(3, 5), floats(3, 5), 15),
        "argmax": (floats(3, 9), out(3, dtype=np.int32), 9, 3),
        "paged_attention": (
            floats(3, 24),
            floats(24, 8),
            floats(24, 8),
            tables,
            ids(0, 1, 1),
            lengths,
            out(3, 2, 6, 4),
            out(3, 2, 6, 2),
            *(6, 2, 4, 4, 3, 2, 0.5, 144),
        ),
        "attention_combine": (
            floats(3, 2, 6, 4),
            np.abs(floats(3, 2, 6, 2)),
            out(3, 24),
            *(6, 4, 2, 72),
        ),
        "top_k": (floats(3, 6), out(3, 2, dtype=np.int32), out(3, 2), 6, 2, 3),
        "expert_linear": (floats(3, 5), routed, floats(4, 5, 3), out(3, 2, 3), 2, 5, 3, 18),
        "add_squares": (floats(3, 5), floats(3, 5), out(3, 1), 5, 3),
        "norm_measured": (
            floats(3, 5),
            np.abs(floats(3, 1)),
            floats(5),
            out(3, 5),
            *(1e-6, 5, 15),
        ),
        "expert_order": (routed, out(3, 2, dtype=np.int32), out(5, dtype=np.int32), 4, 6, 4),
        # Expert 0 gets places 0 and 5, expert 1 place 3, expert 2 place 4, expert 3 the rest.
        "grouped_linear": (
            floats(3, 5),
            ids(0, 5, 3, 4, 1, 2).reshape(3, 2),
            ids(0, 2, 3, 4, 6),
            floats(4, 5, 3),
            out(3, 2, 3),
            *(2, 4, 5, 3, 18),
        ),
        "expert_combine": (
            floats(3, 2, 3),
            routed,
            floats(3, 2),
            floats(4, 3, 5),
            out(3, 5),
            *(2, 3, 5, 15),
        ),
    }


def run(kernel):
    args = arguments()[kernel]
    EVERY[kernel].body(*args)
    return args


def test_every_kernel_has_arguments_here():
    assert set(EVERY) == set(arguments())
    assert len(EVERY) == 18


def test_attention_is_a_softmax_over_the_keys_of_the_request():
    q, keys, values, tables, requests, lengths, partials, stats, *_ = run("paged_attention")
    out = np.zeros((3, 24), np.float32)
    EVERY["attention_combine"].body(partials, stats, out, 6, 4, 2, 72)
    for row in range(3):
        slots = [tables[requests[row]][t // 4] * 4 + t % 4 for t in range(lengths[row])]
        for head in range(6):
            part = slice(4 * (head // 3), 4 * (head // 3) + 4)
            scores = keys[slots, part] @ q[row, 4 * head : 4 * head + 4] * 0.5
            shares = np.exp(scores) / np.exp(scores).sum()
            expected = shares @ values[slots, part]
            np.testing.assert_allclose(out[row, 4 * head : 4 * head + 4], expected, rtol=1e-5)


def test_the_norm_has_mean_square_one_before_its_weight():
    x, weight, out, *_ = run("rms_norm")
    np.testing.assert_allclose(((out.reshape(-1, 4) / weight) ** 2).mean(axis=1), 1, rtol=1e-4)
    np.testing.assert_allclose(np.sign(out), np.sign(x * np.tile(weight, 2)))


def test_a_rotation_by_table_turns_each_pair():
    x, cos, sin, out, *_ = run("rope")
    turned = (x[:, 0:4] + 1j * x[:, 4:8]) * (cos + 1j * sin)
    np.testing.assert_allclose(out[:, 0:4] + 1j * out[:, 4:8], turned, rtol=1e-5)


def test_routing_keeps_the_best_scores_with_shares_that_add_up_to_one():
    scores, ids, shares, *_ = run("top_k")
    assert [sorted(row) for row in ids.tolist()] == np.sort(scores.argsort(axis=1)[:, -2:]).tolist()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    assert (shares[:, 0] >= shares[:, 1]).all()


def test_experts_are_mixed_by_their_shares():
    x, ids, shares, weight, out, *_ = run("expert_combine")
    expected = [
        sum(shares[r, k] * (x[r, k] @ weight[ids[r, k]]) for k in range(2)) for r in range(3)
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-6)


def test_a_measured_norm_is_the_norm_of_the_sum():
    total, term, squares, *_ = run("add_squares")
    weight, measured, plain = np.arange(1, 6, dtype=np.float32), total * 0, total * 0
    EVERY["norm_measured"].body(total, squares, weight, measured, 1e-6, 5, 15)
    EVERY["rms_norm"].body(total, weight, plain, 5, 1e-6, 3)
    assert measured.tobytes() == plain.tobytes()
    before, _, *_ = arguments()["add_squares"]
    np.testing.assert_allclose(total, before + term)


def test_places_are_sorted_by_expert_and_keep_their_order_within_one():
    _, order, offsets, *_ = run("expert_order")
    assert order.reshape(-1).tolist() == [0, 5, 3, 4, 1, 2]
    assert offsets.tolist() == [0, 2, 3, 4, 6]


def test_a_grouped_product_is_the_routed_one():
    x, _, _, weight, grouped, *_ = run("grouped_linear")
    routed = np.array([[0, 3], [3, 1], [2, 0]], np.int32)
    plain = np.zeros_like(grouped)
    EVERY["expert_linear"].body(x, routed, weight, plain, 2, 5, 3, 18)
    assert grouped.tobytes() == plain.tobytes()


@pytest.mark.parametrize("name", sorted(EVERY))
def test_the_cuda_signature_is_the_declared_one(name):
    kernel = EVERY[name]
    found = re.findall(r'extern "C" __global__ void (\w+)\(([^)]*)\)', kernel.cuda)
    ((spelled, parameters),) = found
    kinds = [re.sub(r"\s+\w+$", "", part.strip()) for part in parameters.split(",")]
    types = {"float32": "float", "int32": "int"}
    expected = []
    for param in kernel.params:
        kind = types[param.dtype]
        if param.access is Access.IN:
            expected.append(f"const {kind}*")
        elif param.access is Access.SCALAR:
            expected.append(kind)
        else:
            expected.append(f"{kind}*")
    assert (spelled, kinds) == (name, expected)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The CUDA bodies, compiled as ordinary C++ in which a thread is a call."""
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler here")
    folder = tmp_path_factory.mktemp("kernels")
    source, target = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text(EMULATION + "".join(kernel.cuda for kernel in EVERY.values()))
    subprocess.run(["g++", "-shared", "-fPIC", "-o", target, source], check=True)
    return ctypes.CDLL(str(target))


@pytest.mark.parametrize("name", sorted(EVERY))
def test_the_cuda_body_computes_what_the_numpy_body_computes(name, library):
    expected, observed = run(name), arguments()[name]
    passed = []
    for param, value in zip(EVERY[name].params, observed, strict=True):
        if param.access is Access.SCALAR:
            passed.append(ctypes.c_float(value) if param.dtype == "float32" else int(value))
        else:
            passed.append(value.ctypes.data_as(ctypes.c_void_p))
    thread = ctypes.c_int.in_dll(library, "threadIdx")
    # A few threads more than needed: a grid is rounded up.
    for thread.value in range(observed[-1] + 5):
        library[name](*passed)
    for mine, theirs in zip(observed, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
