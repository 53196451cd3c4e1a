"""What prompt graphs gain and cost, as ratios of one run: `--backend cupy` on a device.

Two models: one whose prompt is many small launches, one whose prompt is few large ones. For each
the cache is off and on in turn, over the same prompts; outputs have to be the same bytes. A round
is a fresh engine on either side: prompts, then decode at batch one, whose first capture releases
the prompt graphs and drains their memory, once; that is timed by itself. The first round warms up.
The host's share is the part of a prompt's time in which
the host submits instead of waiting.
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


FIRST_STEPS = 3
"""Of decode, with the cold step and the capture in them; the others are told as later ones."""


class Side:
    """The cache off, or on: one backend, and one engine after another."""

    def __init__(self, backend_name, sizes, tokens, *, graphs):
        self.backend = fresh_backend(backend_name, 0)
        self.sizes = sizes
        self.tokens = tokens
        self.waited_s = 0.0
        self.output = hashlib.sha256()
        self.graphs = graphs
        self.figures = {
            "prompt_s": [],
            "waited_s": [],
            "later_s": [],
            "released_s": [],
            "replayed": 0,
        }
        wait = self.backend.stream_synchronize

        def timed(stream):
            started = time.perf_counter()
            wait(stream)
            self.waited_s += time.perf_counter() - started

        self.backend.stream_synchronize = timed

    def open(self):
        self.core = ServingCore(
            self.backend,
            self.sizes,
            CoreConfig(
                decode=DecodeConfig(),
                prompt=PromptCacheConfig(enabled=self.graphs),
                pages=1 + self.sizes.columns,
                part_tokens=self.tokens,
            ),
        )
        self.released_s = 0.0
        self.core.prompts.release = self.timed(self.core.prompts.release)
        self.core.prompt_pool.drain = self.timed(self.core.prompt_pool.drain)

    def timed(self, work):
        """The same, with its seconds added to those of the release."""

        def run():
            started = time.perf_counter()
            result = work()
            self.released_s += time.perf_counter() - started
            return result

        return run

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


def measure(backend_name, sizes, tokens, rounds, prompts, steps):
    """The figures of one model, cache off and on in turn."""
    off, on = (Side(backend_name, sizes, tokens, graphs=graphs) for graphs in (False, True))
    for round_number in range(1 + rounds):
        for side in (off, on):
            side.open()
        for number in range(2 + prompts):
            for side in (off, on):
                seconds, waited, token = side.prompt(number)
                # The first observations are direct on both sides.
                if round_number and number >= 2:
                    side.figures["prompt_s"].append(seconds)
                    side.figures["waited_s"].append(waited)
        for side in (off, on) if round_number % 2 else (on, off):
            if round_number:
                side.figures["replayed"] += side.core.counts.get("prompt.replayed", 0)
            times = side.decode(token, steps)
            if round_number:
                side.figures["later_s"] += times[FIRST_STEPS:]
                side.figures["released_s"].append(side.released_s)
            side.close()
    found = summary(off.figures, on.figures)
    found["same_bytes"] = on.output.digest() == off.output.digest()
    for side in (off, on):
        side.backend.close()
    return found


def summary(off, on):
    """Ratios of medians."""

    def median(figures, name):
        return statistics.median(figures[name])

    return {
        "prompts_timed": len(on["prompt_s"]),
        "prompts_replayed": on["replayed"],
        "prompt_off_us": median(off, "prompt_s") * 1e6,
        "prompt_on_us": median(on, "prompt_s") * 1e6,
        "prompt_gain": median(off, "prompt_s") / median(on, "prompt_s"),
        "host_share_off": 1 - sum(off["waited_s"]) / sum(off["prompt_s"]),
        "host_share_on": 1 - sum(on["waited_s"]) / sum(on["prompt_s"]),
        "decode_step_on_us": median(on, "later_s") * 1e6,
        "decode_on_over_off": median(on, "later_s") / median(off, "later_s"),
        "release_off_us": median(off, "released_s") * 1e6,
        "release_on_us": median(on, "released_s") * 1e6,
        "release_in_steps": (median(on, "released_s") - median(off, "released_s"))
        / median(on, "later_s"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="fake")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--prompts", type=int, default=20, help="of each round")
    parser.add_argument("--steps", type=int, default=30, help="of decode in each round")
    parser.add_argument("--json", metavar="FILE", help="keep the figures as JSON")
    told = parser.parse_args()
    found = {"device": dict(fresh_backend(told.backend, 0).device.description)}
    for name, (sizes, tokens) in MODELS.items():
        figures = measure(told.backend, sizes, tokens, told.rounds, told.prompts, told.steps)
        found[name] = figures
        print(name)
        for key, value in figures.items():
            print(f"  {key:32} {value:.4g}" if isinstance(value, float) else f"  {key:32} {value}")
    if told.json:
        Path(told.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
