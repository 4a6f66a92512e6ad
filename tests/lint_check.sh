#!/usr/bin/env bash
# clang-tidy over every source file of the product and the tests. A file that passed is not checked again until it, a
# header of ours that it includes, or .clang-tidy changes. TIDY_BUDGET_S (default 180) bounds the time: files that were
# not reached are counted and come first at the next run. Exit code 1 on a finding.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

budget=${TIDY_BUDGET_S:-180}
jobs=${TANDEM_BUILD_JOBS:-$(nproc)}
tree=build/release
cache=$tree/lint
mkdir -p "$cache/passed"
[[ -f $tree/compile_commands.json ]] || deploy/scripts/build.sh proto/all || exit 1
# clang can not read gcc's precompiled header; every file includes what it needs itself.
sed 's@-Winvalid-pch -include [^ ]*cmake_pch.hxx@@' $tree/compile_commands.json >$cache/compile_commands.json

# Key of a file's state: its content, that of our headers it includes (from the build's own record), and the lint options.
declare -A headers
while read -r source list; do headers[$source]=$list; done < <(
  ninja -C $tree -t deps 2>/dev/null | awk -v root="$PWD/" '
    /^[^ ].*: #deps/ { if (source != "") print source, list; source = ""; list = ""; next }
    NF == 1 && index($1, root) == 1 {
      path = substr($1, length(root) + 1)
      if (path ~ /^build\//) next
      if (source == "" && path ~ /\.cc$/) source = path
      else list = list " " path
    }
    END { if (source != "") print source, list }')
key_of() { cat "$1" .clang-tidy ${headers[$1]:-} 2>/dev/null | sha256sum | cut -d ' ' -f 1; }

todo=()
total=0
while read -r file; do
  grep -q "\"file\": \"$PWD/$file\"" $cache/compile_commands.json || continue
  total=$((total + 1))
  key=$(key_of "$file")
  [[ -f $cache/passed/$key ]] || todo+=("$file $key")
done < <(git ls-files --cached --others --exclude-standard '*.cc')

export cache started=$(date +%s) budget
check_one() {
  local file=$1 key=$2 output
  (($(date +%s) - started > budget)) && { echo "$file" >>"$cache/left"; return 0; }
  if output=$(clang-tidy --quiet -p "$cache" "$file" 2>/dev/null); then
    : >"$cache/passed/$key"
  else
    echo "$output"
    echo "$file" >>"$cache/bad"
  fi
}
export -f check_one
rm -f "$cache/left" "$cache/bad"
((${#todo[@]} > 0)) && printf '%s\n' "${todo[@]}" | xargs -P "$jobs" -L 1 bash -c 'check_one "$0" "$1"'
left=$(cat "$cache/left" 2>/dev/null | wc -l)
bad=$(cat "$cache/bad" 2>/dev/null | wc -l)
echo "lint: $total files, ${#todo[@]} changed since they passed, $bad with findings, $left left for the next run"
((bad == 0))
