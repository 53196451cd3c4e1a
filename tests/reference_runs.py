"""An engine on a fresh fake device, driven step by step."""

from capturegate.backend import Backend
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.adapters import DecodeAdapter


def built(adapter, *, oracle=False, **config):
    """An adapter on a fresh fake device."""
    defaults = {key: default for key, (_, default) in adapter.config_keys.items()}
    return adapter(Backend(FakeDevice()), defaults | config, oracle=oracle)


class Run:
    """An adapter on a fresh fake device, and what its trace says."""

    def __init__(self, device=None, oracle=False, adapter=DecodeAdapter, **config):
        self.backend = Backend(device or FakeDevice())
        defaults = {key: default for key, (_, default) in adapter.config_keys.items()}
        self.adapter = adapter(self.backend, defaults | config, oracle=oracle)
        self.driver = getattr(self.adapter._engine, "driver", None)

    def step(self, label="step", requests=1, tokens=1):
        self.backend.recorder.phase = label
        return self.adapter.step(requests=requests, tokens=tokens)

    def states(self, times, **step):
        return [self.step(**step)["state"] for _ in range(times)]

    def logits(self):
        (output,) = self.adapter.outputs()
        return self.backend.harness_read(output.pointer, output.rows * output.row_bytes)

    def inside(self):
        trace = self.backend.trace()
        return [sum(e.allocates for e in trace.inside(window)) for window in trace.windows]

    def allocations(self, label):
        return sum(event.allocates for event in self.backend.trace().phase(label))

    def notes(self, name):
        events = self.backend.trace().events
        return [e.detail for e in events if e.api == name and e.detail["pool"] == "main"]

    def close(self):
        self.adapter.close()
        self.backend.close()


def no_pre_grow(_pool, _profile):
    """Stands in for a pre-grow that does nothing."""
    return 0
