#!/usr/bin/env bash
# Format, types, lint, import rules, dead code, drift of generated files: each named when it fails, all of them run.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=node_modules/.bin
failed=()
step() {
  local name=$1
  shift
  local output
  echo "check: $name ..." >&2
  if ! output=$("$@" 2>&1); then
    failed+=("$name")
    printf '%s\n\n' "--- $name" "$output"
  fi
}
step types node_modules/typescript7/bin/tsc -p .
step format $bin/biome check --diagnostic-level=error .
step imports $bin/depcruise --config .dependency-cruiser.mjs --output-type err src
step dead-code $bin/knip --no-progress
step drift scripts/check-drift.sh
step lint $bin/eslint --cache --cache-location node_modules/.cache/eslint/ src test bench scripts
if [ ${#failed[@]} -gt 0 ]; then
  echo "check: failed: ${failed[*]} (make format mends the format)"
  exit 1
fi
echo "check: format, types, lint, imports, dead code and generated files are in order"
