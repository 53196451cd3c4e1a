#!/usr/bin/env bash
# What a machine with a GPU is asked, in one go; results land in the folder that is given.
#   ci/on_device.sh OUT [SECONDS OF FUZZING]
# What is kept of them: fuzz-h200.json and scenarios-h200.json under truth/, experiments-h200.json
# and prompt-graphs-h200.json under docs/measured/.
# CAPTUREGATE says how to start the command, PYTHON which interpreter has the cupy extra.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$1
seconds=${2:-0}
capturegate=${CAPTUREGATE:-capturegate}
python=${PYTHON:-python3}
truth=backends/capturegate_backends/truth
failed=0

step() {
    local name=$1
    shift
    echo "== $name"
    "$@" >"$out/$name.txt" 2>&1
    local code=$?
    tail -n 3 "$out/$name.txt"
    if [ "$code" -ne 0 ]; then
        echo "   exit code $code"
        failed=1
    fi
}

step conform $capturegate conform --backend cupy
step fake $capturegate run --json "$out/fake.json"
step scenarios $capturegate run --backend cupy --json "$out/device.json"
step table $python ci/scenario_table.py "$out/fake.json" "$out/device.json" \
    "$out/scenarios-h200.json"
step experiments $capturegate experiment scenarios/capturegate_scenarios/experiments \
    --backend cupy --json "$out/experiments-h200.json"
step prompts $python ci/bench_prompts.py --backend cupy --json "$out/prompt-graphs-h200.json"
step bench $python -c 'import sys; sys.path.insert(0, "ci"); import bench; print(bench.programs())'
if [ "$seconds" -gt 0 ]; then
    cp "$truth/fuzz-h200.json" "$out/"
    step fuzz $capturegate fuzz --seconds "$seconds" --processes "$(($(nproc) - 1))" \
        --ledger "$out/fuzz-h200.json"
fi
exit "$failed"
