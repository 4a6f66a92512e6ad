#!/usr/bin/env bash
# Installs what is missing, builds everything in build/release, runs all tests; the last line is "N passed, N failed".
#   tests/run.sh                 all tests
#   tests/run.sh --no-control    without the control experiments (they train models for minutes)
# TANDEM_ORACLE_DIR names a directory of reference values (tests that need it are skipped without it).
# TANDEM_TEST_JOBS: tests at a time (default 2). Exit codes: 0 all passed, 1 some failed, 2 could not build.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

with_control=1
[[ "${1:-}" == "--no-control" ]] && with_control=0
jobs=${TANDEM_TEST_JOBS:-2}
results=build/release/test-results
passed=0
failed=0
skipped=0

stage() {  # stage NAME COMMAND...: runs it and prints its time
  local name=$1 start=$SECONDS rc=0
  shift
  "$@" || rc=$?
  printf 'stage %-14s %4d s%s\n' "$name" $((SECONDS - start)) "$( ((rc)) && echo "  failed")"
  return $rc
}

attribute() { sed -n "s/.*$1=\"\([0-9]*\)\".*/\1/p" | head -n 1; }

run_tests() {  # run_tests NAME CTEST_ARGUMENTS...: adds to the counts
  local name=$1 report=$results/$1.xml suite
  shift
  rm -f "$report"
  ctest --test-dir build/release --output-on-failure --no-tests=ignore --output-junit "$PWD/$report" "$@" \
    >"$results/$name.log" 2>&1
  local rc=$?
  if [[ ! -s $report ]]; then
    tail -n 20 "$results/$name.log"
    echo "ctest ended without a report (rc $rc); whole output: $PWD/$results/$name.log"
    failed=$((failed + 1))
    return 1
  fi
  suite=$(tr '\n\t' '  ' <"$report" | grep -o '<testsuite [^>]*>')
  local total bad skip disabled
  total=$(attribute ' tests' <<<"$suite")
  bad=$(attribute ' failures' <<<"$suite")
  skip=$(attribute ' skipped' <<<"$suite")
  disabled=$(attribute ' disabled' <<<"$suite")
  skip=$((skip + disabled))
  passed=$((passed + total - bad - skip))
  failed=$((failed + bad))
  skipped=$((skipped + skip))
  if ((bad > 0)); then
    sed -n '/tests passed/,$p' "$results/$name.log"
    echo "whole output: $PWD/$results/$name.log"
  fi
  ((rc == 0))
}

give_up() {
  echo "$1"
  echo "0 passed, 1 failed"
  exit 2
}

stage packages deploy/scripts/install_packages.sh || give_up "packages could not be installed"
stage build-product deploy/scripts/build.sh product || give_up "the product could not be built"
stage build-tests deploy/scripts/build.sh all || give_up "the tests could not be built"
mkdir -p "$results"
ok=0
stage tests run_tests tests -j "$jobs" -LE 'control|gpu' || ok=1
if ((with_control)); then
  stage controls run_tests controls -j 1 -L control || ok=1
fi
((skipped > 0)) && echo "$skipped skipped (their reasons: grep -h -A2 SKIPPED $results/*.log)"
echo "$passed passed, $failed failed"
((ok == 0 && failed == 0 && passed > 0))
