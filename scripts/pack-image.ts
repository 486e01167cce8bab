// `make image`: packs Tidemark's image into an archive, and with --sidecars DIRECTORY the CSI sidecars' as well, for a cluster
// without a registry. Prints what it made; the last line is one JSON object.
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { RELEASE } from "../src/contracts/names.ts";
import { writeSidecarImages } from "./image/sidecar-images.ts";
import { writeTidemarkImage } from "./image/tidemark-image.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The name in the manifests. */
const NAME = `tidemark:${RELEASE}`;
const BYTES_PER_MIB = 1 << 20;

const { values } = parseArgs({
  options: { directory: { type: "string", default: join(ROOT, ".tidemark/images") }, sidecars: { type: "string" } },
});
mkdirSync(values.directory, { recursive: true });
const path = join(values.directory, "tidemark.tar");
const digest = await writeTidemarkImage(path, NAME, join(ROOT, "dist"));
const sizeBytes = statSync(path).size;
const sidecars = values.sidecars === undefined ? [] : await writeSidecarImages(values.sidecars, values.directory);

process.stdout.write(
  `${NAME}: ${path}, ${(sizeBytes / BYTES_PER_MIB).toFixed(1)} MiB, ${digest}, with Node ${process.versions.node}\n` +
    sidecars.map((sidecar) => `sidecar: ${sidecar}\n`).join("") +
    `${JSON.stringify({ name: NAME, path, sizeBytes, digest, nodeVersion: process.versions.node, sidecars })}\n`,
);
