#!/usr/bin/env bash
# Builds Tandem in build/release; binaries are in build/release/bin. A second run rebuilds nothing.
#   build.sh           the product: three daemons and the CLI
#   build.sh all       the tests too
#   build.sh TARGET... these ninja targets
# TANDEM_BUILD_JOBS: compilers at a time (default: the number of cores). Exit codes: 0 built, 1 not built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

targets=("${@:-product}")
jobs=${TANDEM_BUILD_JOBS:-$(nproc)}
log=build/release/build.log
mkdir -p build/release
start=$SECONDS
fail() {
  tail -n 40 "$log" >&2
  echo "build.sh: $1 failed (whole output: $PWD/$log)." >&2
  echo "If a header or library is missing run deploy/scripts/install_packages.sh; if the tree is stale remove build/release." >&2
  exit 1
}

if [[ ! -f build/release/build.ninja ]]; then
  cmake --preset release >"$log" 2>&1 || { rm -f build/release/build.ninja; fail "configuring"; }
fi
if [[ -t 1 ]]; then
  # One status line that ninja rewrites; the log keeps errors.
  ninja -C build/release -j "$jobs" "${targets[@]}" 2>&1 | tee "$log" | stdbuf -o0 tr '\n' '\r' | cut -c 1-4000 || fail "building"
  printf '\n'
else
  ninja -C build/release -j "$jobs" "${targets[@]}" >"$log" 2>&1 || fail "building"
fi
if grep -q '^ninja: no work to do' "$log"; then
  echo "build: up to date (${targets[*]})"
else
  echo "build: ${targets[*]} in $((SECONDS - start)) s"
fi
