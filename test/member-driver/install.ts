// Puts the member driver into a test cluster: bundled, packed into images by the packer of Tidemark's own, and applied. A cluster
// that has a driver of that name already, and one of somebody else's, is left as it is.
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packedImage } from "../../scripts/image/packed-image.ts";
import { sidecarImages } from "../../scripts/image/sidecar-images.ts";
import { tidemarkImage } from "../../scripts/image/tidemark-image.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { builtTools } from "../cluster/go-tools.ts";
import { giveImages } from "../cluster/node-images.ts";
import { runProgram } from "../cluster/run-program.ts";
import type { ClusterUnderTest } from "../e2e/cluster-under-test.ts";
import { MEMBER_DRIVER } from "./config.ts";
import { BUNDLE, DRIVER_IMAGE, memberDriverManifests, NAMESPACE, WORKLOADS } from "./manifests.ts";
import { sidecarRoleManifests } from "./sidecar-role.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ROLLOUT_LIMIT = "--timeout=300s";
/** CommonJS packages inside an ES module bundle call require for Node's builtins. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/** Where the driver's volumes, switches and log of RPCs are, seen from this machine; undefined: the driver is somebody else's. */
export async function installMemberDriver(
  tested: Pick<ClusterUnderTest, "cluster" | "kubectl">,
): Promise<string | undefined> {
  const { cluster, kubectl } = tested;
  if (cluster === undefined) return undefined;
  const exists = async (...what: string[]): Promise<boolean> =>
    (await kubectl("get", ...what, "--namespace", NAMESPACE, "--ignore-not-found", "--output", "name")) !== "";
  const directory = memberDirectoryOf(cluster);
  if (!(await exists("csidriver", MEMBER_DRIVER))) await putInto(cluster, kubectl, directory);
  else if (!(await exists(WORKLOADS[0]))) return undefined;
  for (const workload of WORKLOADS) await kubectl("-n", NAMESPACE, "rollout", "status", workload, ROLLOUT_LIMIT);
  return directory;
}

export function memberDirectoryOf({ places }: Pick<Cluster, "places">): string {
  return join(places.directory, "member-driver");
}

async function putInto(cluster: Cluster, kubectl: ClusterUnderTest["kubectl"], directory: string): Promise<void> {
  const bundling = join(cluster.places.directory, "member-driver-bundle");
  const programs = await builtTools("kubernetes", () => undefined);
  // Tidemark's pods run the same ones: a node has them once.
  const sidecars = sidecarImages(programs);
  const images = [tidemarkImage(DRIVER_IMAGE, await bundle(bundling)), ...sidecars];
  await giveImages(cluster, await Promise.all(images.map((image) => packedImage(image))));
  const named = sidecars.map(({ names: [image = ""], entrypoint: [path = ""] }) => ({
    program: basename(path),
    image,
  }));
  const items = [...memberDriverManifests(directory, named), ...sidecarRoleManifests()];
  writeFileSync(join(bundling, "objects.json"), JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  await kubectl("--namespace", NAMESPACE, "apply", "--server-side", "--filename", join(bundling, "objects.json"));
}

/** The directory that has it. */
async function bundle(directory: string): Promise<string> {
  const dist = join(directory, "dist");
  mkdirSync(dist, { recursive: true });
  await runProgram(join(ROOT, "node_modules/.bin/esbuild"), [
    join(ROOT, "test/member-driver/main.ts"),
    ...["--bundle", "--platform=node", "--target=node20.19", "--main-fields=module,main", "--format=esm"],
    ...[`--banner:js=${REQUIRE}`, `--outfile=${join(dist, BUNDLE)}`, "--log-level=error"],
  ]);
  return dist;
}
