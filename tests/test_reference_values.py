"""Every verb of every adapter, and every key of its configuration, told what nobody would mean."""

import pytest

from capturegate.adapter import verbs_of
from capturegate.errors import InputError
from capturegate_reference.adapters import DecodeAdapter, PoolAdapter
from capturegate_reference.allocating import AllocatingAdapter
from capturegate_reference.chunk_adapter import ChunkAdapter
from capturegate_reference.draft_adapter import DraftAdapter
from capturegate_reference.fork_adapter import ForkAdapter
from capturegate_reference.mistakes import MistakesAdapter
from capturegate_reference.prompt_adapter import PromptAdapter
from capturegate_reference.seam_adapter import SeamAdapter
from capturegate_reference.server_adapter import ServerAdapter
from capturegate_reference.shared_prompts_adapter import SharedPromptsAdapter
from reference_runs import built

ADAPTERS = [
    AllocatingAdapter,
    ChunkAdapter,
    DecodeAdapter,
    DraftAdapter,
    ForkAdapter,
    MistakesAdapter,
    PoolAdapter,
    PromptAdapter,
    SeamAdapter,
    ServerAdapter,
    SharedPromptsAdapter,
]

USUAL = {"cache": "none", "graph": "g", "holder": "h", "layer": 0, "name": "a", "nbytes": 64}
USUAL |= {"requests": 1, "tokens": 8, "value": "1"}

HUGE = 10**9


def told_of(adapter, verb, args):
    """What a verb says to a word or number: a mistake, or something else."""
    faulty = {"fault": "refused_close"} if "fault" in adapter.config_keys else {}
    subject = built(adapter, **faulty)
    if adapter is PoolAdapter and not verb.startswith("get"):
        subject.get(nbytes=64, name="a")
    if adapter is SeamAdapter and verb != "bind":
        subject.bind()
    try:
        return getattr(subject, verb)(**args)
    except InputError as error:
        return error
    finally:
        subject.close()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_no_verb_fails_over_a_word_or_a_number(adapter):
    values = {"int": (-1, 0), "str": ("", "unheard of", "a\x00b")}
    for verb, arguments in verbs_of(adapter).items():
        usual = {argument.name: USUAL[argument.name] for argument in arguments if argument.required}
        for argument in arguments:
            for value in values.get(argument.type, ()):
                told = told_of(adapter, verb, usual | {argument.name: value})
                if value == -1 and verb != "size_class":
                    assert f"{argument.name} is -1" == getattr(told, "problem", told)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_no_engine_fails_over_a_word_or_a_number_of_its_configuration(adapter):
    values = {int: (-1, HUGE), str: ("", "unheard of"), bool: ()}
    for key, (kind, _) in adapter.config_keys.items():
        for value in values[kind]:
            try:
                built(adapter, **{key: value}).close()
            except InputError as error:
                told = (error.problem, error.expected)
            else:
                told = ("", "")
            if value != HUGE:
                assert key in told[0], f"{key} is {value!r}"
                assert told[1], f"{key} is {value!r}"
