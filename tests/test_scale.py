"""benchmarks/scale.py runs at a small size: real files, real processes, one line per case."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "scale.py"


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPT.is_file(), reason="the benchmarks are not part of the package")
def test_the_benchmark_measures_training_and_the_leakage_check():
    command = [sys.executable, str(SCRIPT), "--rows", "2000", "--cases", "paper", "leakage"]
    process = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    head, _, *lines = process.stdout.strip().splitlines()
    assert head == "| case | CPU s | wall s | peak MB |"
    cells = [re.fullmatch(r"\| (\w+).* \| ([\d.]+) \| ([\d.]+) \| ([\d,]+) \|", line) for line in lines]
    assert [match and match[1] for match in cells] == ["NLI", "Leakage"]
    assert all(float(match[number]) > 0 for match in cells for number in (2, 3))
    assert all(50 < int(match[4].replace(",", "")) < 3000 for match in cells)
    assert "kornli/snli_1.0_train.ko.tsv: 2,000 rows" in process.stderr
