#!/usr/bin/env bash
# Format, types, lint, import rules, dead code, drift of generated files, words of texts and comments: in parallel, since no step changes a
# file; each is named when it fails, and all of them run.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bin=node_modules/.bin
outcomes=$(mktemp -d) || exit 1
trap 'rm -rf "$outcomes"' EXIT
steps=()
step() {
  local name=$1
  shift
  steps+=("$name")
  { "$@" >"$outcomes/$name.output" 2>&1 && touch "$outcomes/$name.passed"; } &
}
echo "check: types, format, imports, dead code, drift, words, lint ..." >&2
step lint $bin/eslint --cache --cache-location node_modules/.cache/eslint/ src demo test bench scripts
step types node_modules/typescript7/bin/tsc -p .
step drift scripts/check-drift.sh
step dead-code $bin/knip --no-progress
step imports $bin/depcruise --config .dependency-cruiser.mjs --output-type err src demo
step words node --import tsx scripts/check-words.ts
step format $bin/biome check --diagnostic-level=error .
wait
failed=()
for name in "${steps[@]}"; do
  [ ! -e "$outcomes/$name.passed" ] || continue
  failed+=("$name")
  printf '%s\n\n' "--- $name" "$(<"$outcomes/$name.output")"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "check: failed: ${failed[*]} (make format mends the format)"
  exit 1
fi
echo "check: format, types, lint, imports, dead code, generated files and words are in order"
