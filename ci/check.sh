#!/usr/bin/env bash
# Everything that has to be green before a change lands. Runs anywhere with Python and make.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== lint"
make lint

echo "== the main job, from the README"
make gate

echo "== the proofs, from the README"
make proofs

echo "== the rules of the fake, each missed by a recording when it is gone"
make rules

echo "== the tests, from the README"
make test
