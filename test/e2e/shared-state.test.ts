// What a suite may leave in a cluster that others use after it, planted on purpose: the comparison after each suite has to name it.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { nodePlaces } from "../cluster/places.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { onNode } from "./node-shell.ts";
import { scriptPod } from "./pod.ts";
import { difference } from "./shared-state.ts";
import { whatStands } from "./what-stands.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 300_000;
const NODE = "node1";
const LEFT = "left-over";

let tested: ClusterUnderTest;

const stands = (): Promise<string[]> => whatStands(clusterOf(tested), tested.client, tested.kubectl);

const volume = {
  apiVersion: "v1",
  kind: "PersistentVolume",
  metadata: { name: LEFT },
  spec: { accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" }, hostPath: { path: "/run/nowhere" } },
};

const settings = (value: string): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: LEFT },
  data: { value },
});

/** By the line that tells of it: how it is left, and how it is taken away. */
const LEFTOVERS: readonly (readonly [RegExp, () => Promise<unknown>, () => Promise<unknown>])[] = [
  [
    /^\+ Namespace left-over /,
    () => tested.kubectl("create", "namespace", LEFT),
    () => tested.kubectl("delete", "namespace", LEFT),
  ],
  [
    /^\+ StorageClass left-over /,
    () => applyObject({ kubectl: tested.kubectl }, localClass(LEFT)),
    () => tested.kubectl("delete", "storageclass", LEFT),
  ],
  [
    /^\+ PersistentVolume left-over /,
    () => applyObject(tested, volume),
    () => tested.kubectl("delete", "persistentvolume", LEFT),
  ],
  [
    /^\+ ConfigMap e2e-\w+\/left-over /,
    () => applyObject(tested, settings("changed")),
    () => applyObject(tested, settings("as it was")),
  ],
  [
    /^\+ Pod e2e-\w+\/left-over$/,
    () => applyObject(tested, scriptPod(tested, LEFT, NODE, "exec sleep 1000000")),
    () => tested.kubectl("delete", "pod", LEFT, "--wait"),
  ],
  [
    /^\+ Node node1 .*"left-over:NoSchedule".*"left":"over"/,
    async () => {
      await tested.kubectl("label", "node", NODE, "left=over");
      await tested.kubectl("taint", "node", NODE, `${LEFT}=:NoSchedule`);
    },
    async () => {
      await tested.kubectl("label", "node", NODE, "left-");
      await tested.kubectl("taint", "node", NODE, `${LEFT}-`);
    },
  ],
  [
    /^\+ node1: mount \/run\/left-over$/,
    () => onNode(clusterOf(tested), NODE, "sh", "-euc", "mkdir /run/left-over; mount -t tmpfs none /run/left-over"),
    () => onNode(clusterOf(tested), NODE, "sh", "-euc", "umount /run/left-over; rmdir /run/left-over"),
  ],
  [
    /^\+ loop device on .*left-over\.img$/,
    () =>
      onNode(
        clusterOf(tested),
        NODE,
        "sh",
        "-euc",
        "truncate -s 1M /var/lib/left-over.img; losetup -f /var/lib/left-over.img",
      ),
    () =>
      onNode(
        clusterOf(tested),
        NODE,
        "sh",
        "-euc",
        'losetup -d "$(losetup -nO NAME -j /var/lib/left-over.img)"; rm /var/lib/left-over.img',
      ),
  ],
  [
    /^\+ node1: tidemark\/left-over\.json$/,
    async () => {
      await onNode(clusterOf(tested), NODE, "mkdir", "-p", "/var/lib/tidemark");
      writeFileSync(recordPath(), "{}");
    },
    () => onNode(clusterOf(tested), NODE, "rm", "/var/lib/tidemark/left-over.json"),
  ],
];

function recordPath(): string {
  return join(nodePlaces(clusterOf(tested).places, NODE).varLib, "tidemark/left-over.json");
}

describeOn("ours", "what a suite leaves in a shared cluster", [], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    await applyObject(tested, settings("as it was"));
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "is named, in the API and on the nodes, and nothing is named once it is gone",
    async () => {
      const before = await stands();
      expect(difference(before, await stands())).toEqual([]);
      for (const [, leave] of LEFTOVERS) await leave();
      const named = difference(before, await stands());
      for (const [line] of LEFTOVERS) expect(named).toContainEqual(expect.stringMatching(line));
      expect(named).toContainEqual(expect.stringMatching(/^- ConfigMap e2e-\w+\/left-over /));
      for (const [, , remove] of LEFTOVERS) await remove();
      let left: readonly string[] = [];
      await waitFor(
        "nothing to be left",
        async () => {
          left = difference(before, await stands());
          return left.length === 0 ? true : undefined;
        },
        { intervalMs: 1000, otherwise: () => left.join("\n") },
      );
    },
    LIMIT_MS,
  );
});
