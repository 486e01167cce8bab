// A delete of the install, and of its foundation, on a kube-apiserver with kubectl: what the guards hold is there after any number of
// attempts, and goes once nothing needs it.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { MEMBER_NAMESPACE } from "../../src/contracts/names.ts";
import type { ApiUnderTest } from "../harness/api-under-test.ts";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { startKubeApiServer } from "../real-api/kube-apiserver.ts";

const LIMIT_MS = 300_000;
const FOUNDATION = "kustomize/foundation";
const OVERLAY = "kustomize/overlays/minimal";
const PROBED = "customresourcedefinition/filesystems.tidemark.dev";
const GUARD_KINDS = "validatingadmissionpolicies,validatingadmissionpolicybindings";

let api: ApiUnderTest;

async function kubectl(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("kubectl", ["--server", api.url, ...args], { maxBuffer: 1 << 26 });
  return stdout;
}

/** What the operator keeps. */
async function membersAre(members: string): Promise<void> {
  const configMap = ["-n", MEMBER_NAMESPACE, "create", "configmap", "tidemark-members"];
  await kubectl("-n", MEMBER_NAMESPACE, "delete", "configmap", "tidemark-members", "--ignore-not-found");
  await kubectl(...configMap, `--from-literal=members=${members}`, "--from-literal=operator=system:nobody");
  await waitFor(
    `the guards to know of ${members} members`,
    async () => ((await isRefused("delete", PROBED, "--dry-run=server")) === (members !== "none") ? true : undefined),
    { limitMs: LIMIT_MS / 2 },
  );
}

async function isRefused(...command: readonly string[]): Promise<boolean> {
  try {
    await kubectl(...command);
    return false;
  } catch (error) {
    if (/members of volumes hold data/.test(String(error))) return true;
    throw error;
  }
}

/** "kind name UID", of those objects of the foundation that are there. */
async function standing(): Promise<string[]> {
  const path = 'jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\\n"}{end}';
  const found = await kubectl("get", "-k", FOUNDATION, "--ignore-not-found", "--output", path);
  return found.split("\n").filter((line) => line !== "");
}

/** As docs/reference/installation.md says it. */
async function takeFinalizersOff(): Promise<void> {
  const guards = await kubectl("get", GUARD_KINDS, "-l", "tidemark.dev/foundation", "-o", "name");
  for (const guard of guards.split("\n").filter((name) => name !== ""))
    await kubectl("patch", guard, "--type=merge", '--patch={"metadata":{"finalizers":null}}');
}

describeReal("a delete with kubectl", ["cluster"], () => {
  let installed: string[];

  beforeAll(async () => {
    api = await startKubeApiServer(0);
    await kubectl("apply", "--server-side", "-k", FOUNDATION);
    await kubectl("apply", "--server-side", "-k", OVERLAY);
    await membersAre("some");
    installed = await standing();
  }, 3_600_000);
  afterAll(() => api?.close(), LIMIT_MS);

  it(
    "of the overlay, twice, takes nothing of the foundation",
    async () => {
      expect(installed).toHaveLength(29);
      for (let time = 1; time <= 2; time += 1)
        await kubectl("delete", "-k", OVERLAY, "--ignore-not-found", "--wait=false");
      expect(await standing()).toEqual(installed);
    },
    LIMIT_MS,
  );

  it(
    "of the foundation, three times while members exist, takes neither what the guards hold nor the guards",
    async () => {
      for (let time = 1; time <= 3; time += 1) {
        expect(await isRefused("delete", "-k", FOUNDATION, "--ignore-not-found", "--wait=false")).toBe(true);
        const left = (await standing()).filter((line) => !line.startsWith("ClusterRole "));
        expect(left).toEqual(installed.filter((line) => !line.startsWith("ClusterRole ")));
      }
    },
    LIMIT_MS,
  );

  it(
    "of the foundation takes all of it once there are no members, and the guards when their finalizers are taken off",
    async () => {
      await membersAre("none");
      await kubectl("delete", "-k", FOUNDATION, "--ignore-not-found", "--wait=false");
      await takeFinalizersOff();
      await waitFor("nothing to be left", async () => ((await standing()).length === 0 ? true : undefined), {
        limitMs: LIMIT_MS / 2,
        otherwise: async () => (await standing()).join("\n"),
      });
    },
    LIMIT_MS,
  );
});
