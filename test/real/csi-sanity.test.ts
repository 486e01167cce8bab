// The whole of csi-sanity against the operator's and the agent's sockets, as real processes on real loop devices, and on logical volumes
// of real LVM by lvmd. What is skipped is listed, with what it would need: a spec that is skipped for any other reason fails here.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { credentials, Metadata } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../demo/show/run/mount-table.ts";
import { NodeClient } from "../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { mountCapability } from "../builders/create-volume-request.ts";
import { runCsiSanity, type SanityReport } from "../harness/csi-sanity.ts";
import { describeReal, type RealPart, STACK_PARTS } from "../harness/real-parts.ts";
import { type Stack, type StackOptions, startStack } from "../harness/stack.ts";
import { waitFor } from "../harness/wait-for.ts";

/** csi-test 5.6.0. */
const SPECS = { passed: 55, refused: 6, skipped: 41, pending: 1 };
const RUN = SPECS.passed + SPECS.refused;
const ALL = RUN + SPECS.skipped + SPECS.pending;
/** Those that need a thin pool, which the driver has and neither ground does: each is refused with the ground's own reason. */
const NEEDING_THIN_POOL = [
  "CreateVolume should create volume from an existing source snapshot",
  "CreateVolume should create volume from an existing source volume",
  "CreateSnapshot [Controller Server] should fail when requesting to create a snapshot with already existing name and different source volume ID",
  "CreateSnapshot [Controller Server] should succeed when creating snapshot with maximum-length name",
  "CreateSnapshot [Controller Server] should succeed when requesting to create a snapshot with already existing name and same source volume ID",
  "DeleteSnapshot [Controller Server] should return appropriate values (no optional values added)",
];
/** Specs by what csi-sanity says of them: local volumes are not attached, and these do not exist yet. */
const SKIPPED: Readonly<Record<string, number>> = {
  "Controller Publish, UnpublishVolume not supported": 2,
  "ControllerPublishVolume not supported": 7,
  "ControllerUnpublishVolume not supported": 1,
  "GetSnapshot not supported": 3,
  "ListSnapshots not supported": 7,
  "GroupControllerService not supported": 6,
  "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported": 1,
  "ControllerModifyVolume not supported": 6,
  "Modify volume not supported": 1,
  "Modify Volume not supported": 1,
  // Of CSI 1.13; in 1.12 the condition is a part of NodeGetVolumeStats.
  "ControllerGetVolumeHealth not supported": 2,
  "ControllerListVolumeHealth not supported": 1,
  "NodeGetVolumeHealth not supported": 2,
  "NodeGetStorageHealth not supported": 1,
};
const CANARY = "canary-5f1c0d";
const SECRETS = [
  ...["CreateVolume", "DeleteVolume", "ControllerValidateVolumeCapabilities", "NodeStageVolume", "NodePublishVolume"],
  "ControllerExpandVolume",
];
const VERBOSE = ["--log-level", "debug"];

describeSanity("loop", {}, [], /is of the backend loop|asked for is loop/);
describeSanity("lvm", { lvm: { groupBytes: 256 * GIB } }, ["lvm"], /which is thick/);
describeSanity("lvm", { lvm: { groupBytes: 256 * GIB } }, ["lvm"], /which is thick/, "block");

function describeSanity(
  backend: string,
  options: StackOptions,
  parts: readonly RealPart[],
  noThinPool: RegExp,
  accessType: "mount" | "block" = "mount",
): void {
  describeReal(
    `csi-sanity on local.tidemark.dev, backend ${backend}, ${accessType} volumes`,
    [...STACK_PARTS, ...parts, "csi-sanity"],
    () => {
      let stack: Stack;
      let report: SanityReport;
      const withStatus = (status: string) => report.specs.filter((spec) => spec.status === status);

      beforeAll(async () => {
        stack = await startStack({
          ...options,
          flags: { operator: VERBOSE, "policy-engine": VERBOSE, agent: VERBOSE },
        });
        report = await runCsiSanity({
          directory: stack.directory,
          controllerSocket: join(stack.directory, "operator.sock"),
          nodeSocket: join(stack.directory, "agent.sock"),
          kubeletDirectory: stack.kubeletDirectory,
          parameters: {
            backend,
            "csi.storage.k8s.io/pvc/namespace": "default",
            "csi.storage.k8s.io/pvc/name": "sanity",
          },
          secrets: Object.fromEntries(SECRETS.map((call) => [`${call}Secret`, { password: `${CANARY}-${call}` }])),
          volumeBytes: GIB,
          expandedBytes: 2 * GIB,
          flags: { "csi.testvolumeaccesstype": accessType },
        });
        console.info(report.summary);
      }, 900_000);
      afterAll(() => stack?.close());

      it("passes every spec that it runs, but those that need a thin pool", () => {
        const failed = withStatus("failed");
        expect(failed.filter(({ message }) => !noThinPool.test(message))).toEqual([]);
        const names = failed.map(({ name }) => name.replace("Controller Service [Controller Server] ", ""));
        expect(names.sort()).toEqual(NEEDING_THIN_POOL.toSorted());
        expect(report.summary).toContain(`Ran ${RUN} of ${ALL} Specs`);
        expect(withStatus("passed")).toHaveLength(SPECS.passed);
      });

      it("skips only what the driver does not have", () => {
        const counts: Record<string, number> = {};
        for (const { message } of withStatus("skipped")) {
          const why = message.replace("skipped - ", "");
          counts[why] = (counts[why] ?? 0) + 1;
        }
        expect(counts).toEqual(SKIPPED);
        expect(withStatus("skipped")).toHaveLength(SPECS.skipped);
        expect(withStatus("pending").map(({ name }) => name)).toEqual([
          expect.stringContaining("pagination should detect volumes added between pages"),
        ]);
        expect(report.specs).toHaveLength(ALL);
      });

      it("leaves no volume, mount, device or member behind", async () => {
        const left = async () => [
          ...(await stack.client.list(FILESYSTEM_LAYOUTS)).items.map(({ metadata }) => metadata.name),
          ...(await stack.client.list(LOGICAL_VOLUMES)).items.map(({ metadata }) => `LogicalVolume ${metadata.name}`),
          ...((await stack.lvm?.ground.lvm("lvs", "--noheadings")) ?? "").split("\n").filter((line) => line !== ""),
          ...mountsUnder(stack.kubeletDirectory),
          ...loopDevicesUnder(stack.memberDirectory),
          ...readdirSync(stack.memberDirectory).filter((name) => name.endsWith(".img")),
        ];
        await waitFor("nothing to be left", async () => ((await left()).length === 0 ? true : undefined), {
          otherwise: async () => (await left()).join(", "),
        });
      });

      it("shows no secret and no service account's token in any log or metric", async () => {
        await refusedCallsWithTokens(join(stack.directory, "agent.sock"), stack.kubeletDirectory);
        const logs = readdirSync(stack.directory).filter((name) => name.endsWith(".log") && name !== "csi-sanity.log");
        const texts = logs.map((name) => [name, readFileSync(join(stack.directory, name), "utf8")] as const);
        for (const [process, port] of Object.entries(stack.httpPorts))
          texts.push([`${process}'s metrics`, await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()]);
        expect(texts.find(([name]) => name === "agent.log")?.[1]).toContain("a call was refused");
        expect(texts.filter(([, text]) => text.includes(CANARY)).map(([name]) => name)).toEqual([]);
      });
    },
  );
}

/** Refusals are what is logged: an unknown volume, a wrong path. */
async function refusedCallsWithTokens(socket: string, kubeletDirectory: string): Promise<void> {
  const node = new NodeClient(`unix://${socket}`, credentials.createInsecure());
  const request = {
    volumeCapability: mountCapability(),
    volumeContext: { "csi.storage.k8s.io/serviceAccount.tokens": `{"":{"token":"${CANARY}-token"}}` },
    publishContext: { password: `${CANARY}-publish-context` },
    secrets: { password: `${CANARY}-secret` },
    readonly: false,
  };
  const codes: unknown[] = [];
  const call = (method: "nodeStageVolume" | "nodePublishVolume", volumeId: string, path: string) =>
    new Promise<void>((resolve) => {
      const paths = { stagingTargetPath: path, targetPath: path };
      node[method]({ ...request, ...paths, volumeId }, new Metadata(), (error: { code?: number } | null) => {
        codes.push(error?.code);
        resolve();
      });
    });
  for (const method of ["nodeStageVolume", "nodePublishVolume"] as const) {
    await call(method, "fs-11111111-2222-4333-8444-555555555555", join(kubeletDirectory, "pods"));
    await call(method, "fs-11111111-2222-4333-8444-555555555555", "/etc");
  }
  node.close();
  expect(codes).toEqual([5, 3, 5, 3]);
}
