"""What prompt graphs gain and cost, as ratios of one run: `--backend cupy` on a device.

Two models: one whose prompt is many small launches, one whose prompt is few large ones. For each
the cache is off and on in turn, over the same prompts; outputs have to be the same bytes. The
host's share is the part of a prompt's time in which the host submits instead of waiting.
"""

import argparse
import hashlib
import json
import statistics
import time
from pathlib import Path

from capturegate.run.engines import fresh_backend
from capturegate_reference.decode import DecodeConfig
from capturegate_reference.inputs import Entry
from capturegate_reference.prompt_cache import PromptCacheConfig
from capturegate_reference.serving import CoreConfig, ServingCore
from capturegate_reference.sizes import ModelSizes

MODELS = {
    "submission-bound": (ModelSizes(layers=12), 8),
    "compute-bound": (
        ModelSizes(
            layers=2,
            heads=16,
            kv_heads=4,
            head_dim=64,
            mlp_width=4096,
            vocab=2048,
            page_tokens=64,
            columns=4,
        ),
        192,
    ),
}


class Bench:
    """One core; times its prompts and decode steps."""

    def __init__(self, backend_name, sizes, tokens, *, graphs):
        self.backend = fresh_backend(backend_name, 0)
        self.sizes = sizes
        self.tokens = tokens
        self.core = ServingCore(
            self.backend,
            sizes,
            CoreConfig(
                decode=DecodeConfig(),
                prompt=PromptCacheConfig(enabled=graphs),
                pages=1 + sizes.columns,
                part_tokens=tokens,
            ),
        )
        self.waited_s = 0.0
        self.output = hashlib.sha256()
        wait = self.backend.stream_synchronize

        def timed(stream):
            started = time.perf_counter()
            wait(stream)
            self.waited_s += time.perf_counter() - started

        self.backend.stream_synchronize = timed

    def pages(self):
        return tuple(range(1, 1 + self.sizes.columns))

    def prompt(self, number):
        """Seconds of one prompt, and of those in which the host waited."""
        drawn = [(7 * number + 3 * i) % self.sizes.vocab for i in range(self.tokens)]
        self.waited_s, started = 0.0, time.perf_counter()
        token = self.core.prompt(drawn, self.pages())
        seconds = time.perf_counter() - started
        self.see()
        return seconds, self.waited_s, token

    def decode(self, token, steps):
        """Seconds of each of so many batch-one decode steps after a prompt."""
        times = []
        for step in range(steps):
            entry = Entry(tokens=(token,), position=self.tokens + step, pages=self.pages())
            started = time.perf_counter()
            _, (token,) = self.core.step([entry])
            times.append(time.perf_counter() - started)
            self.see()
        return times

    def see(self):
        logits = self.core.logits
        nbytes = 4 * self.sizes.vocab * logits.rows
        self.output.update(self.backend.harness_read(logits.pointer, nbytes))

    def close(self):
        self.core.close()
        self.backend.close()


def measure(backend_name, sizes, tokens, prompts, steps):
    """The figures of one model, cache off and on in turn."""
    sides = {graphs: Bench(backend_name, sizes, tokens, graphs=graphs) for graphs in (False, True)}
    prompt_s = {False: [], True: []}
    waited_s = {False: [], True: []}
    decode_s = {False: [], True: []}
    for number in range(prompts):
        for graphs, bench in sides.items():
            seconds, waited, _ = bench.prompt(number)
            if number >= 2:  # the first observations are direct on both sides
                prompt_s[graphs].append(seconds)
                waited_s[graphs].append(waited)
    replayed = sides[True].core.counts.get("prompt.replayed", 0)
    for graphs, bench in sides.items():
        _, _, token = bench.prompt(prompts)
        decode_s[graphs] = bench.decode(token, steps)
    off, on = (statistics.median(prompt_s[graphs]) for graphs in (False, True))
    figures = {
        "prompts_timed": len(prompt_s[True]),
        "prompts_replayed": replayed,
        "prompt_off_us": off * 1e6,
        "prompt_on_us": on * 1e6,
        "prompt_gain": off / on,
        "host_share_off": 1 - sum(waited_s[False]) / sum(prompt_s[False]),
        "host_share_on": 1 - sum(waited_s[True]) / sum(prompt_s[True]),
        "decode_first_steps_on_over_off": sum(decode_s[True][:3]) / sum(decode_s[False][:3]),
        "decode_steady_on_over_off": statistics.median(decode_s[True][3:])
        / statistics.median(decode_s[False][3:]),
        "same_bytes": sides[True].output.digest() == sides[False].output.digest(),
    }
    for bench in sides.values():
        bench.close()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="fake")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", metavar="FILE", help="keep the figures as JSON")
    arguments = parser.parse_args()
    found = {"device": dict(fresh_backend(arguments.backend, 0).device.description)}
    for name, (sizes, tokens) in MODELS.items():
        figures = measure(arguments.backend, sizes, tokens, arguments.prompts, arguments.steps)
        found[name] = figures
        print(name)
        for key, value in figures.items():
            print(f"  {key:32} {value:.4g}" if isinstance(value, float) else f"  {key:32} {value}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
