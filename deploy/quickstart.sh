#!/usr/bin/env bash
# From a fresh clone to a model that has learned sums by reinforcement learning, on the CPU of this machine.
#   deploy/quickstart.sh [--seed N] [--dir DIR]
# Five stages: packages, build, daemons and a new model, a supervised warm-up, GRPO. The daemons stay up at the end.
# Exit codes: 0 the model has learned, 1 it has not or a stage failed (the text names the log and the remedy).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository=$PWD

seed=1
home=$repository/build/quickstart
while (($# > 0)); do
  case $1 in
    --seed) seed=$2; shift 2 ;;
    --dir) home=$2; shift 2 ;;
    *) echo "usage: deploy/quickstart.sh [--seed N] [--dir DIR]" >&2; exit 2 ;;
  esac
done
mkdir -p "$home" || exit 1
home=$(cd "$home" && pwd)
tandem=$repository/build/release/bin/tandem
held_out=512
required_rise=20

# ---------------------------------------------------------------- stages

stages=("packages" "build" "daemons, model, data" "supervised warm-up" "reinforcement learning (GRPO)")
expected=("up to 120 s, 1 s when installed" "up to 6 min on 2 cores, 1 s when built" "5 s" "15 s" "2 min")
stage_number=0
stage_start=0
begin() {
  stage_start=$SECONDS
  stage_number=$((stage_number + 1))
  echo
  echo "[$stage_number/5] ${stages[stage_number - 1]} (expected: ${expected[stage_number - 1]})"
}
finish() { echo "[$stage_number/5] done in $((SECONDS - stage_start)) s, $SECONDS s since the start"; }
fail() {  # fail LOG REMEDY
  echo
  echo "FAILED in stage $stage_number, ${stages[stage_number - 1]}, after $((SECONDS - stage_start)) s"
  [[ -f $1 ]] && { echo "The end of its log:"; tail -n 8 "$1" | cut -c 1-400; }
  echo "Log:    $1"
  echo "Remedy: $2"
  exit 1
}

# ---------------------------------------------------------------- 1, 2

echo "Tandem quickstart, seed $seed. Everything lives in $home"
begin
deploy/scripts/install_packages.sh || fail "$home" "install the packages that are named above, then run this script again"
finish

begin
deploy/scripts/build.sh product || fail build/release/build.log "see the errors above; run this script again to go on from there"
finish
built=$SECONDS

# ---------------------------------------------------------------- 3

begin
number=1
while [[ -e $home/run-$number ]]; do number=$((number + 1)); done
run=$home/run-$number
mkdir -p "$run"
export TANDEM_RUN_DIR=$home/daemons
if ((${#TANDEM_RUN_DIR} > 90)); then  # a Unix socket's path is limited
  TANDEM_RUN_DIR=$(mktemp -d /tmp/tandem-quickstart-XXXXXX)
  echo "the path of $home is too long for sockets; the daemons meet in $TANDEM_RUN_DIR"
fi
echo "this run: $run"
"$tandem" down >"$run/down.log" 2>&1 || fail "$run/down.log" "stop the daemons of the run before: tandem down --run_dir $TANDEM_RUN_DIR"
"$tandem" model init --out "$run/model" --hidden_size 128 --layers 3 --heads 8 --initializer_range 0.05 --intermediate_size 512 \
  --max_position_embeddings 128 --seed "$seed" >"$run/model.log" 2>&1 || fail "$run/model.log" "see the text above"
"$tandem" example sums --out "$run/data" --held_out $held_out --seed "$seed" 2>&1 | tee "$run/data.log"
((PIPESTATUS[0] == 0)) || fail "$run/data.log" "see the text above"
"$tandem" up --model "$run/model" --pool_bytes 1GiB --state_dir "$home/state" >"$run/up.log" 2>&1 ||
  fail "$run/up.log" "if memory is short, stop other programs; if another Tandem is up, stop it with tandem down"
cat "$run/up.log"

# The first held-out problems, asked before and after.
mapfile -t problems < <(sed -n 's/.*"prompt": "\([^"]*\)".*"answer": "\([^"]*\)".*/\1 \2/p' "$run/data/held_out.jsonl" | head -n 5)
ask() {
  "$tandem" generate "$1" --temperature 0 --max_tokens 5 2>"$run/generate.log" | tr -d '\n' | LC_ALL=C tr -c '[:print:]' '?'
  ((PIPESTATUS[0] == 0)) || return 1
}
before_answers=()
for problem in "${problems[@]}"; do
  answer=$(ask "${problem% *}") || fail "$run/generate.log" "see $TANDEM_RUN_DIR/log/inference.log"
  before_answers+=("$answer")
done
echo
echo "The untrained model answers, $((SECONDS - built)) s after the build's end:"
for i in "${!problems[@]}"; do
  echo "  ${problems[i]% *}  '${before_answers[i]}'  (right: ${problems[i]#* })"
done
echo
finish

# ---------------------------------------------------------------- 4, 5

submit() {  # submit NAME: runs the job and follows it; its events are in NAME.log
  cp "deploy/examples/$1.yaml" "$run/$1.yaml"
  sed -i "s/^seed: .*/seed: $seed/" "$run/$1.yaml"
  if [[ -t 2 ]]; then
    "$tandem" submit "$run/$1.yaml" --follow >"$run/$1.log"
  else
    "$tandem" submit "$run/$1.yaml" --follow 2>&1 | tee "$run/$1.log" |
      awk '!/^step / || /^step 1\// {print; fflush()} /^step / {split($2, n, "/"); if (n[1] % 25 == 0) {print; fflush()}}'
    return "${PIPESTATUS[0]}"
  fi
}
accuracy() {  # accuracy first|last: of the held-out problems, in per cent
  local pick=head
  [[ $1 == last ]] && pick=tail
  sed -n 's/^eval at step [0-9]*: mean reward \([0-9.]*\) .*/\1/p' "$run/sums_grpo.log" | $pick -n 1 |
    awk '{printf "%.1f", 100 * $1}'
}

begin
submit sums_sft || fail "$run/sums_sft.log" "see $TANDEM_RUN_DIR/log/trainer.log"
finish

begin
submit sums_grpo || fail "$run/sums_grpo.log" "see $TANDEM_RUN_DIR/log/trainer.log"
finish

# ---------------------------------------------------------------- summary

before=$(accuracy first)
after=$(accuracy last)
rise=$(awk -v a="$before" -v b="$after" 'BEGIN {printf "%.1f", b - a}')
after_lines=()
for i in "${!problems[@]}"; do
  answer=$(ask "${problems[i]% *}") || fail "$run/generate.log" "see $TANDEM_RUN_DIR/log/inference.log"
  verdict=wrong
  [[ $answer == "${problems[i]#* }" ]] && verdict=right
  after_lines+=("$verdict: ${problems[i]% *}  untrained '${before_answers[i]}', now '$answer'")
done
echo
echo "Summary"
echo "  held-out problems     $held_out, none of them trained on in either order ($(grep -o 'overlap.*' "$run/data.log"))"
echo "  accuracy              $before % after the warm-up, $after % after GRPO: $rise points more"
echo "  the same prompts      $(printf '%s\n' "${after_lines[@]}" | sort | sed '2,$s/^/                        /')"
sed -n '/^job .* at step/,$p' "$run/sums_grpo.log" | sed 's/^/  /'
echo "  whole run             $((SECONDS - built)) s after the build's end"
echo
echo "The daemons are up. Try:"
echo "  export PATH=$repository/build/release/bin:\$PATH TANDEM_RUN_DIR=$TANDEM_RUN_DIR"
echo "  tandem status"
echo "  tandem chat --plain --temperature 0        # type 23+45="
echo "  tandem jobs; tandem job show $(sed -n 's/^job \([0-9]*\) .*at step.*/\1/p' "$run/sums_grpo.log")"
echo "  your own data: edit deploy/examples/gsm8k.yaml, then tandem submit deploy/examples/gsm8k.yaml --follow"
echo "  tandem down"
if ! awk -v rise="$rise" -v required=$required_rise 'BEGIN {exit !(rise >= required)}'; then
  fail "$run/sums_grpo.log" "accuracy rose by $rise points, at least $required_rise were expected; try another --seed and report this log"
fi
