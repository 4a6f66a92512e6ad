#!/usr/bin/env bash
# Runs one Python end-to-end test with the interpreter TANDEM_PYTHON, or Debian's. Exit status 77: skipped, with the reason.
set -euo pipefail
cd "$(dirname "$0")"
python=${TANDEM_PYTHON:-/usr/bin/python3}
command -v "$python" >/dev/null || { echo "skipped: no $python"; exit 77; }
exec env PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 "$python" "$@"
