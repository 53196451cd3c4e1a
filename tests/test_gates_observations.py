"""Which observation a call is for: across threads, nested, and launched for another."""

from cache_stories import FIRST, HIT, Cache
from capturegate.run.result import Verdict


def test_observations_of_two_threads_do_not_take_each_others_work():
    story, other = Cache(), []

    def decode(cache):
        cache.notes.observed("decode", "b", "1")
        cache.work("token")
        cache.notes.ran_directly("decode", "b", "1")
        cache.captured("token", capture=2)
        cache.call("cudaGraphInstantiate", 8, graph=cache.graph)
        cache.notes.holds(8, "decode", "b", "1")
        cache.notes.observed("decode", "b", "1")
        other.append(cache.launch(8))

    story.observe().work().in_thread(decode).work("norm").ran().captured("embed", "norm").made()
    story.observe().launch()
    assert [story] == other
    assert story.judge(FIRST).figures == {"launches": 2, "unproven": 0, "mismatched": 0}
    assert story.judge(HIT).figures == {"observations": 4, "known": 2, "replayed": 2}


def test_work_of_another_threads_observation_bears_out_no_direct_run():
    def decode(cache):
        cache.notes.observed("decode", "b", "1")
        cache.work("embed")

    story = Cache().observe().in_thread(decode).ran().captured("embed").made().observe().launch()
    assert story.judge(FIRST).verdict is Verdict.BROKEN


def test_a_thread_that_observes_nothing_works_for_the_observation():
    story = Cache().observe().in_thread(Cache.work).ran().captured("embed").made()
    assert story.observe().in_thread(Cache.launch).judge(HIT).verdict is Verdict.HELD
    first = Cache().observe().in_thread(Cache.work).ran().captured("embed").made()
    assert first.in_thread(Cache.launch).judge(FIRST).verdict is Verdict.BROKEN


def two_proven():
    """An executable each for two observations, both run directly."""
    return Cache().seed("a", executable=7).seed("b", executable=8)


def test_a_launch_of_what_is_proven_but_was_not_observed_is_broken():
    judged = two_proven().observe("b").launch(7).judge(FIRST)
    assert (judged.verdict, judged.figures["unproven"], judged.figures["mismatched"]) == (
        Verdict.BROKEN,
        0,
        1,
    )
    assert judged.reason == "executable 7 was launched for prompt b/1, and holds prompt a/1"
    assert [event.api for event in judged.witness] == ["cudaGraphLaunch", "graph.observed"]


def test_one_executable_that_holds_the_addresses_of_before_is_broken_for_others():
    story = Cache().seed(properties="1")
    story.observe(properties="2").work().ran().updated().holds()
    judged = story.observe(properties="1").launch().judge(FIRST)
    assert "was launched for prompt a/1, and holds prompt a/2" in judged.reason


def test_what_was_answered_in_the_step_excuses_no_later_launch_of_it():
    story = two_proven().observe("a").launch(7).observe("b").launch(8).launch(7)
    assert story.judge(FIRST).figures["mismatched"] == 1


def test_what_was_observed_and_never_answered_is_over_with_its_step():
    story = two_proven().step("1:warm").observe("a").step("2:warm").observe("b").launch(8)
    assert story.launch(7).judge(FIRST).figures["mismatched"] == 1


def test_an_observation_within_another_leaves_the_outer_its_launch():
    story = two_proven().observe("a").observe("b").launch(8).launch(7)
    assert story.judge(FIRST).verdict is Verdict.HELD
    assert story.judge(HIT).figures == {"observations": 4, "known": 2, "replayed": 2}


def test_the_outer_observation_is_launched_after_the_inner_one_was_answered():
    judged = two_proven().observe("a").observe("b").launch(7).launch(8).judge(FIRST)
    assert judged.figures["mismatched"] == 1


def nested(*before, between=(), after=()):
    """A direct run of `a` around one of `b`, with what ran when; `a` is captured whole."""
    story = Cache().observe("a")
    for kernel in before:
        story.work(kernel)
    story.observe("b")
    for kernel in between:
        story.work(kernel)
    story.ran()
    for kernel in after:
        story.work(kernel)
    story.notes.ran_directly("prompt", "a", "1")
    story.what = ("prompt", "a", "1")
    return story.captured("embed", "norm", "head").made().observe("a").launch()


def test_a_direct_run_around_another_proves_with_all_that_ran_in_it():
    story = nested("embed", between=["norm"], after=["head"])
    assert story.judge(FIRST).verdict is Verdict.HELD
    assert story.judge(HIT).verdict is Verdict.HELD


def test_a_direct_run_around_another_proves_no_more_than_ran():
    story = nested("embed", between=["norm"])
    assert story.judge(FIRST).figures == {"launches": 1, "unproven": 1, "mismatched": 0}


def test_what_ran_within_another_is_no_direct_run_of_the_outer_one():
    story = Cache().observe("a").observe("b").work("embed").ran()
    story.notes.ran_directly("prompt", "a", "1")
    story.what = ("prompt", "a", "1")
    story.captured("embed").made().observe("a").launch()
    assert story.judge(FIRST).verdict is Verdict.BROKEN
    assert story.judge(FIRST).figures == {"launches": 1, "unproven": 1, "mismatched": 0}


def test_a_direct_run_within_another_is_not_proven_by_the_outer_ones_calls():
    story = Cache().observe("a").work("embed").observe("b").work("norm").ran()
    story.captured("embed", "norm").made().observe("b").launch()
    assert story.judge(FIRST).verdict is Verdict.BROKEN


def test_a_thread_that_observes_nothing_may_launch_for_any_other():
    def decode(cache):
        cache.notes.observed("decode", "b", "1")
        # While this thread lives, so that the next one is another.
        cache.in_thread(Cache.launch)

    story = Cache().seed().observe().in_thread(decode)
    assert story.judge(FIRST).verdict is Verdict.HELD
    assert story.judge(HIT).verdict is Verdict.HELD


def test_a_thread_that_observes_nothing_launches_nothing_that_nobody_observed():
    story = two_proven().observe("b").in_thread(lambda cache: cache.launch(7))
    assert story.judge(FIRST).figures["mismatched"] == 1


def test_a_direct_run_before_the_launch_is_seen_wherever_it_writes():
    seeded = Cache().observe().work().ran().captured("embed").made()
    judged = seeded.observe().work(at=8192).launch().judge(HIT)
    assert "ran directly beside its launch" in judged.reason


def test_a_direct_run_that_the_cache_tells_of_is_seen_wherever_it_writes():
    seeded = Cache().observe().work().ran().captured("embed").made()
    judged = seeded.observe().launch().work(at=8192).ran().judge(HIT)
    assert "ran directly beside its launch" in judged.reason


def test_a_part_of_it_before_the_launch_is_no_direct_run():
    seeded = Cache().observe().work().work("norm").ran().captured("embed", "norm").made()
    assert seeded.observe().work(at=8192).launch().judge(HIT).verdict is Verdict.HELD


def test_the_same_work_of_another_observation_before_the_launch_is_no_direct_run():
    story = Cache().observe().work().ran().captured("embed").made()
    story.observe().observe("b").work(at=8192).ran().launch()
    assert story.judge(HIT).figures == {"observations": 3, "known": 1, "replayed": 1}
