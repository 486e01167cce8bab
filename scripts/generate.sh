#!/usr/bin/env bash
# Writes every generated file from its source: gRPC code, CRDs, the list of effect points.
set -euo pipefail
cd "$(dirname "$0")/.."
node_modules/.bin/buf generate
node --import tsx scripts/generate-crds.ts
node --import tsx scripts/generate-effect-points.ts
