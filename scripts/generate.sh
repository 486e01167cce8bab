#!/usr/bin/env bash
# Writes every generated file from its source: gRPC code, CRDs, the list of effect points, what of CEL is refused. Into the work tree, or below DIRECTORY:
#   scripts/generate.sh [DIRECTORY]
set -euo pipefail
root=$(realpath "${1:-$(dirname "$0")/..}")
cd "$(dirname "$0")/.."
mkdir -p "$root/kustomize/foundation/crds" "$root/test" "$root/docs/reference"
node_modules/.bin/buf generate --output "$root"
node --import tsx scripts/generate-crds.ts "$root/kustomize/foundation/crds"
node --import tsx scripts/generate-effect-points.ts "$root/test/effect-points.json"
node --import tsx scripts/generate-cel-conformance.ts "$root/docs/reference/cel-conformance.md"
