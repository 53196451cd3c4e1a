import json

from capturegate.run.plan import expand
from capturegate.run.request import case_from_request, case_request
from capturegate.scenario.loader import load_scenario

SCENARIO = """
scenario: full
about: Every key of a scenario.
origin: somebody's report
engine: toy:Toy
config: {model: dense, size: 3, fast: true, ratio: 0.5}
arms:
  green: {mode: strict}
  red:
    mode: relaxed
    expect:
      capture-completes: broken
      replay-matches-eager: {verdict: broken, witness: Pool.get}
lanes:
  plain: {}
  bypass: {env: {SWITCH: "1"}, skip_if: pool.off, reason: no pool, judged_in: plain}
steps:
  - cold: {requests: 1}
  - drain: {require: {freed: "> 0"}}
  - replay:
      only: [plain]
      id: again
      times: 3
      requests: 2
      check: {replays: "3..4", state: {red: replay}}
gates: [capture-completes, {replay-matches-eager: {rows: 3}}]
"""


def test_a_case_survives_the_pipe(tmp_path):
    path = tmp_path / "full.scenario.yaml"
    path.write_text(SCENARIO)
    cases = expand([load_scenario(path)], "fake")
    assert len(cases) == 4
    for case in cases:
        request = json.loads(json.dumps(case_request(case, seed=7)))
        assert case == case_from_request(request)
        assert request["seed"] == 7
