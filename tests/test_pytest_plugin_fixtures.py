import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester):
    """Runs the text of a test module in a pytest of its own."""
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = -p no:hypothesispytest\n")

    def runs(text, method="runpytest"):
        pytester.makepyfile(test_it=text)
        return getattr(pytester, method)()

    return runs


def closing_of(result):
    return [line for line in result.outlines if line.startswith("cases:")]


def checks(passed, failed):
    counted = f"checks: {passed + failed} | {passed} passed | {failed} failed"
    return [f"cases: 0 | 0 passed | 0 failed | 0 skipped · {counted}"]


def test_failed_checks_are_listed_together_after_the_test_went_on(run):
    result = run(
        """
        def test_it(check):
            check(1 == 2, "one is two")
            check(1 == 1, "one is one")
            check(0, "nothing is something")
            print("went on")
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "2 of 3 checks failed",
            "  test_it.py:2: check failed: one is two",
            "  test_it.py:4: check failed: nothing is something",
            "went on",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert checks(1, 2) == closing_of(result)


def test_a_failed_require_stops_the_test_and_lists_what_failed_before(run):
    result = run(
        """
        def test_it(check, require):
            check(False, "first")
            require(True, "second")
            require(False, "third")
            print("went on")
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "2 of 3 checks failed",
            "  test_it.py:2: check failed: first",
            "  test_it.py:4: require failed: third",
        ]
    )
    assert "went on" not in result.stdout.str()
    assert checks(1, 2) == closing_of(result)


def test_an_engine_that_catches_exceptions_does_not_swallow_a_require(run):
    result = run(
        """
        def test_it(require):
            try:
                require(False, "it holds")
            except Exception:
                pass
        """
    )
    result.assert_outcomes(failed=1)


def test_tests_without_checks_add_no_line(run):
    result = run("def test_it(): pass")
    result.assert_outcomes(passed=1)
    assert [] == closing_of(result)


def test_passed_checks_of_several_tests_add_up(run):
    result = run(
        """
        def test_one(check):
            check(True, "a")
            check([1], "b")

        def test_two(require):
            require("x", "c")
        """
    )
    result.assert_outcomes(passed=2)
    assert checks(3, 0) == closing_of(result)


def test_checks_of_a_test_that_fails_otherwise_are_told_and_counted(run):
    result = run(
        """
        def test_it(check):
            check(True, "a")
            check(False, "b")
            assert 1 == 2
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*", "  test_it.py:3: check failed: b"])
    assert checks(1, 1) == closing_of(result)


def test_a_skip_does_not_hide_a_failed_check(run):
    result = run(
        """
        import pytest

        def test_it(check):
            check(False, "a")
            pytest.skip("not today")
        """
    )
    result.assert_outcomes(failed=1)


def test_an_expected_failure_may_be_a_check(run):
    result = run(
        """
        import pytest

        @pytest.mark.xfail(strict=True)
        def test_it(check):
            check(False, "a")
        """
    )
    result.assert_outcomes(xfailed=1)


def test_checks_in_the_fixtures_of_a_test_count_before_and_after_it(run):
    result = run(
        """
        import pytest

        @pytest.fixture
        def around(check):
            check(False, "before")
            yield
            check(False, "after")

        def test_it(around):
            print("ran")
        """
    )
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["  test_it.py:5: check failed: before", "ran"])
    result.stdout.fnmatch_lines(["  test_it.py:7: check failed: after"])
    assert checks(0, 2) == closing_of(result)


def test_the_backend_is_fresh_and_recorded(run):
    result = run(
        """
        def test_one(capture_backend, check):
            capture_backend.malloc(64)
            check(capture_backend.name == "fake", "fake by default")
            check(["cudaMalloc"] == [e.api for e in capture_backend.trace().events], "recorded")

        def test_two(capture_backend, check):
            check((0,) == (len(capture_backend.trace().events),), "fresh")
        """,
        "runpytest_subprocess",  # NumPy can be loaded once in a process
    )
    result.assert_outcomes(passed=2)
    assert checks(3, 0) == closing_of(result)


def test_the_backend_is_closed_also_after_a_failure(run):
    result = run(
        """
        import pytest

        @pytest.fixture
        def log(capture_backend):
            told = []
            close = capture_backend.device.close

            def closing():
                told.append("closed")
                close()

            capture_backend.device.close = closing
            return told

        @pytest.fixture(autouse=True)
        def after(request):
            told = []
            yield told
            print(f"in the end {told[0]}")

        def test_it(log, after):
            after.append(log)
            assert log == ["never"]
        """,
        "runpytest_subprocess",  # NumPy can be loaded once in a process
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["in the end [[]'closed']"])
