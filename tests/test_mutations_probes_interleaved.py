"""Probes in code that the interleaver watches."""

from capturegate.interleave import Interleaver
from capturegate_mutations.probes import probed
from capturegate_mutations.serve import PROBE
from capturegate_mutations.source import Source

WORK = """\
def work(number):
    total = number + 1
    if total > 1:
        total = total * 2
    return total
"""


def test_probes_leave_the_order_of_interleaved_threads_as_it_is():
    def order(keys):
        namespace = {PROBE: set().add, "__name__": "m"}
        exec(probed(Source(module="m", path="m.py", text=WORK), keys), namespace)
        came, interleaver = [], Interleaver(3, frozenset({"m.py"}), one_in=4)

        def job(number):
            for _ in range(6):
                namespace["work"](number)
                came.append(number)

        interleaver.run([lambda n=n: job(n) for n in range(4)])
        return came, interleaver.switches

    assert order(set()) == order({"m:work@body.0", "m:work@body.1", "m:work@body.1.body.0"})
    assert 10 < order(set())[1]
