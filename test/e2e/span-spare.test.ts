// A span that keeps a spare member, on a real Kubernetes: an emergency takes it in while the API server is down. And a span that is
// larger than it need be, on one member: that is replaced by a smaller one.
import { execFileSync } from "node:child_process";
import { readFileSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { VolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { startComponent, stopComponent } from "../cluster/components.ts";
import { memberStates } from "../harness/member-states.ts";
import { waitFor } from "../harness/wait-for.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { applyObject } from "./apply-object.ts";
import { breathingPolicy } from "./breathing-policy.ts";
import { spanClass } from "./claiming-pod.ts";
import { clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { grantIsOnDisk } from "./grant-on-disk.ts";
import { install, loadImages, logsOf } from "./installed-tidemark.ts";
import { createSpan, deleteSpan, type OwnCluster, type SpanInCluster, untilLayout } from "./span-in-cluster.ts";
import { memberObjects } from "./span-traces.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 420_000;

const LIMITS = { min: "2Gi", max: "8Gi", minAvailable: "512Mi" };
const RULES: VolumePolicySpec["rules"] = [
  { name: "extend-at-95", action: "Extend", when: "volume.usedRatio >= 0.95", by: "1Gi" },
  {
    name: "shrink-below-20",
    action: "Shrink",
    when: "volume.usedRatioMax('3s') < 0.2 && volume.capacityBytes > quantity('3Gi')",
    for: "1s",
    targetUsed: "50%",
  },
];

const members = ({ spec }: FilesystemLayout): string => memberStates(spec.members).join(", ");
const reported = ({ status }: FilesystemLayout): string => memberStates(status?.members).join(", ");

let tested: OwnCluster;

function capacityBytes({ mountPath }: SpanInCluster): number {
  const { blocks, bsize } = statfsSync(mountPath);
  return blocks * bsize;
}

/** The members' driver takes its volumes away in its own time. */
async function nothingIsLeft(): Promise<void> {
  let left: object = {};
  const look = async (): Promise<true | undefined> => {
    left = await memberObjects(tested);
    return isDeepStrictEqual(left, { claims: [], volumes: [], attachments: [] }) ? true : undefined;
  };
  await waitFor("nothing to be left of its members", look, {
    limitMs: LIMIT_MS / 4,
    intervalMs: 300,
    otherwise: () => JSON.stringify(left),
  });
}

describeOn("ours", "a span in need, and one at ease", [], () => {
  beforeAll(async () => {
    const started = await startClusterUnderTest();
    tested = { ...started, cluster: clusterOf(started) };
    await installMemberDriver(tested);
    await loadImages(tested);
    await install(tested);
    await applyObject(tested, spanClass("spared", { spareMembers: "1" }));
    await applyObject(tested, spanClass("spareless"));
    await applyObject(tested, breathingPolicy(LIMITS, RULES));
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "has its spare ready, takes it in with the API server down, and gets another one when that is back",
    async () => {
      const span = await createSpan(tested, "needy", "spared");
      const hasSpare = (layout: FilesystemLayout): boolean => reported(layout) === "m0 2Gi Present, m1 1Gi Spare";
      const { spec } = await untilLayout(tested, span, "a spare", hasSpare);
      await grantIsOnDisk(tested.cluster, spec.nodeName ?? "", span.handle, () => whatIsThere(tested));
      writeFileSync(join(span.mountPath, "kept"), Buffer.alloc(8 * MIB, "tide"));
      await stopComponent(tested.cluster, "kube-apiserver");
      try {
        expect(capacityBytes(span)).toBe(2 * GIB);
        execFileSync("fallocate", ["--length", String(1600 * MIB), join(span.mountPath, "filler")]);
        execFileSync("sync", ["--file-system", span.mountPath]);
        await waitFor("3 GiB", () => (capacityBytes(span) === 3 * GIB ? true : undefined), { limitMs: LIMIT_MS / 4 });
      } finally {
        await startComponent(tested.cluster, "kube-apiserver");
      }
      const isTold = (layout: FilesystemLayout): boolean =>
        members(layout).startsWith("m0 2Gi Present, m1 1Gi Present, m2") && reported(layout).endsWith(" Spare");
      const layout = await untilLayout(tested, span, "what it has, and another spare", isTold).catch(async (error) => {
        throw new Error(`${String(error)}\n${(await logsOf(tested)).slice(-20_000)}`);
      });
      expect(layout.status?.lastOperation).toMatchObject({ emergency: true, outcome: "Succeeded", reached: "3Gi" });
      expect(readFileSync(join(span.mountPath, "kept")).equals(Buffer.alloc(8 * MIB, "tide"))).toBe(true);
      await deleteSpan(tested, span);
      await nothingIsLeft();
    },
    LIMIT_MS,
  );

  it(
    "has its one large member replaced by a smaller one, and its data kept",
    async () => {
      const span = await createSpan(tested, "idle", "spareless", "6Gi");
      const bytes = Buffer.alloc(64 * MIB, "tide");
      writeFileSync(join(span.mountPath, "kept"), bytes);
      execFileSync("sync", ["--file-system", span.mountPath]);
      await untilLayout(tested, span, "one smaller member", (layout) => reported(layout) === "m1 2Gi Present").catch(
        async (error) => {
          throw new Error(`${String(error)}\n${(await logsOf(tested)).slice(-20_000)}`);
        },
      );
      expect(capacityBytes(span)).toBe(2 * GIB);
      expect(readFileSync(join(span.mountPath, "kept")).equals(bytes)).toBe(true);
      expect(await memberObjects(tested)).toMatchObject({ claims: ["m1"] });
      await deleteSpan(tested, span);
    },
    LIMIT_MS,
  );
});
