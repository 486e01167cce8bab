#!/usr/bin/env bash
# Fails when a generated file is not what its source generates, or is left over from a source that is gone. The work tree is only read:
# everything is generated into a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
scripts/generate.sh "$generated"
status=0
for path in src/contracts/gen kustomize/foundation/crds test/effect-points.json docs/reference/cel-conformance.md; do
  diff -ruN "$path" "$generated/$path" || status=1
done
[ $status = 0 ] || echo "generated files differ from their sources: run make generate"
exit $status
