"""Trims the JSON of two whole runs to the file that the conformance page is written from.

capturegate run --json fake.json
capturegate run --backend cupy --json device.json
python ci/scenario_table.py fake.json device.json OUT
"""

import json
import sys
from pathlib import Path

from capturegate_backends.conform.scenario_runs import trim


def main(fake, device, out):
    runs = trim(*(json.loads(Path(path).read_text()) for path in (fake, device)))
    runs.save(Path(out))
    print(f"{len(runs.fake)} cases on the fake, {len(runs.device)} on {runs.description['device']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
