// The component network-policies as kube-apiserver takes it: with every field, and each policy in force as it is written.
import { spawn } from "node:child_process";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { ApiUnderTest } from "../harness/api-under-test.ts";
import { kustomizeWith, type Manifest, manifestsOf } from "../harness/kustomize.ts";
import { networkPoliciesOf } from "../harness/network-policies.ts";
import { describeReal } from "../harness/real-parts.ts";
import { startKubeApiServer } from "../real-api/kube-apiserver.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 120_000;
const OWN_NAMESPACE = "storage-team";
const COMPONENTS = ["components/placement", "components/network-policies"];

let api: ApiUnderTest;

/** Its output; throws what it says on standard error. */
async function kubectl(args: readonly string[], input = ""): Promise<string> {
  const child = spawn("kubectl", ["--server", api.url, ...args], { stdio: "pipe" });
  const [said, complained] = [child.stdout, child.stderr].map(async (stream) =>
    Buffer.concat(await stream.toArray()).toString("utf8"),
  );
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  if (code !== 0) throw new Error(await complained);
  return (await said) ?? "";
}

describeReal("the component network-policies, applied", ["cluster"], () => {
  beforeAll(async () => {
    api = await startKubeApiServer(0);
    await kubectl(["apply", "--server-side", "-k", "kustomize/foundation"]);
  }, BUILD_LIMIT_MS);
  afterAll(() => api?.close(), LIMIT_MS);

  it(
    "stands in the API server word for word, and goes with its overlay",
    async () => {
      const overlay = kustomizeWith("overlays/lvm", { namespace: OWN_NAMESPACE }, COMPONENTS);
      await kubectl(["apply", "--server-side", "--validate=strict", "-f", "-"], overlay);
      const written = networkPoliciesOf(manifestsOf(overlay));
      const list = ["--namespace", OWN_NAMESPACE, "get", "networkpolicies", "--output", "json"];
      const standing = networkPoliciesOf((JSON.parse(await kubectl(list)) as { items: Manifest[] }).items);
      const byName = (policies: typeof written) =>
        new Map(policies.map(({ metadata, spec }) => [metadata.name, spec] as const));
      expect(written).toHaveLength(5);
      expect(byName(standing)).toEqual(byName(written));
      await kubectl(["delete", "--wait=false", "-f", "-"], overlay);
      expect((JSON.parse(await kubectl(list)) as { items: Manifest[] }).items).toEqual([]);
    },
    LIMIT_MS,
  );
});
