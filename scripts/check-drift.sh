#!/usr/bin/env bash
# Fails when a generated file is not what its source generates; the work tree is left as it was.
set -euo pipefail
cd "$(dirname "$0")/.."
generated=(src/gen kustomize/base/crds test/effect-points.json)
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
cp -a --parents "${generated[@]}" "$before"
scripts/generate.sh
status=0
for path in "${generated[@]}"; do
  diff -ru "$before/$path" "$path" || status=1
  rm -rf "$path"
  cp -a "$before/$path" "$path"
done
[ $status = 0 ] || echo "generated files differ from their sources: run make generate"
exit $status
