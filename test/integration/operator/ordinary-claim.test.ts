// Claims of another driver, against the embedded control plane; the test plays that driver, its resizer and the policy-engine.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS, type PersistentVolumeClaim } from "../../../src/contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS, RECORDS } from "../../../src/contracts/names.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { eventMessage, startTestCluster, type TestCluster } from "./cluster.ts";
import { DRIVER, type ForeignDriver, foreignDriver, NAMESPACE as namespace } from "./foreign-driver.ts";

let cluster: TestCluster;
let driver: ForeignDriver;

const readFilesystem = (name: string) => () => cluster.client.get(FILESYSTEMS, { namespace, name });
const readClaim = (name: string) => () => cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
const requestOf = (claim: PersistentVolumeClaim | undefined): string | undefined =>
  claim?.spec.resources?.requests?.storage;

interface FieldsOfManager {
  readonly manager: string;
  readonly operation: string;
  readonly fieldsV1: object;
}

/** As the server has them; our client leaves them out. */
async function managersOf(name: string): Promise<FieldsOfManager[]> {
  const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${name}`;
  const answer = await fetch(`${cluster.controlPlane.url}${path}`);
  const { metadata } = (await answer.json()) as { metadata: { managedFields: FieldsOfManager[] } };
  return metadata.managedFields;
}

async function untilLayout(handle: string, holds: (layout: FilesystemLayout | undefined) => boolean) {
  return untilRead(`layout ${handle}`, () => cluster.client.get(FILESYSTEM_LAYOUTS, { name: handle }), holds);
}

async function untilAdopted(name: string): Promise<Filesystem | undefined> {
  return untilRead(`${name} is Ready`, readFilesystem(name), (one) =>
    Boolean(one?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True")),
  );
}

/** With a Filesystem that is Ready; returns its handle. */
async function adopted(name: string): Promise<string> {
  const handle = await driver.provide(name);
  await untilAdopted(name);
  return handle;
}

const untilRequested = (name: string, size: string) =>
  untilRead("the request", readClaim(name), (one) => requestOf(one) === size);

/** The operator has looked at everything that happened before. */
async function untilSettled(): Promise<void> {
  const name = `marker-${randomUUID()}`;
  await driver.provide(name, { opted: "always" });
  await untilAdopted(name);
}

/** Only a claim that is opted in gets a Filesystem: so it is seen that the operator has heard of a policy's change. */
async function untilNothingIsAdopted(): Promise<void> {
  const provideAnother = async (): Promise<Filesystem | undefined> => {
    const name = `probe-${randomUUID()}`;
    await driver.provide(name);
    await untilSettled();
    return readFilesystem(name)();
  };
  await untilRead("the operator adopts no more", provideAnother, (filesystem) => filesystem === undefined);
}

beforeAll(async () => {
  cluster = await startTestCluster();
  driver = foreignDriver(cluster.client);
  await driver.createClass();
  await driver.policy("in", "Enabled");
  await driver.policy("always", "Enabled");
});
afterAll(async () => {
  await cluster.stop();
});

describe("a claim of another driver", () => {
  it("that a policy opts in gets a Filesystem, which it owns", async () => {
    const handle = await driver.provide("adopted");
    const filesystem = await untilAdopted("adopted");
    expect(filesystem?.metadata.ownerReferences).toEqual([
      expect.objectContaining({ kind: "PersistentVolumeClaim", name: "adopted" }),
    ]);
    expect(filesystem?.status).toMatchObject({ capacity: "10Gi", volumeHandle: handle, nodeName: "node-9" });
    expect((await untilLayout(handle, (one) => one !== undefined))?.spec).toMatchObject({
      backend: "claim",
      nodeName: "node-9",
      members: [{ name: "claim", source: { claim: { volumeName: "pv-adopted", driver: DRIVER } } }],
    });
  });

  it("that nobody opts in is not touched", async () => {
    await driver.provide("stranger", { opted: "out" });
    await untilSettled();
    expect(await readFilesystem("stranger")()).toBeUndefined();
  });

  it("is not touched where the policy that decides it says nothing, although the cluster's policy opts claims in", async () => {
    await driver.clusterPolicy("Enabled");
    await driver.policy("silent", undefined);
    await driver.provide("silent", { opted: "silent", team: "any" });
    await driver.provide("by-cluster", { team: "any" });
    await untilAdopted("by-cluster");
    await untilSettled();
    expect(await readFilesystem("silent")()).toBeUndefined();
  });

  it("is extended by its request, under a field manager of its own, which owns nothing else", async () => {
    const handle = await adopted("filling");
    await driver.want("filling", "15Gi", "10Gi");
    await untilRequested("filling", "15Gi");
    expect((await managersOf("filling")).find(({ manager }) => manager === FIELD_MANAGERS.claimRequest)).toMatchObject({
      operation: "Apply",
      fieldsV1: { "f:spec": { "f:resources": { "f:requests": { "f:storage": {} } } } },
    });
    await untilRead("that it is under way", readFilesystem("filling"), (one) =>
      Boolean(
        one?.status?.conditions?.some(({ reason, status }) => reason === "OperationRunning" && status === "True"),
      ),
    );
    await driver.says("filling", { capacity: { storage: "15Gi" } });
    await untilRead("the capacity", readFilesystem("filling"), (one) => one?.status?.capacity === "15Gi");
    const layout = await untilLayout(handle, (one) => one?.spec.members?.[0]?.source.claim?.capacity === "15Gi");
    // What limits default to is what its user asked for, however often we raise it.
    expect(layout?.metadata.annotations?.[RECORDS.requestedSize]).toBe("10Gi");
  });

  it("shows on its Filesystem what its driver cannot do, and is asked for nothing more", async () => {
    const handle = await adopted("infeasible");
    await driver.want("infeasible", "15Gi", "10Gi");
    await untilRequested("infeasible", "15Gi");
    await driver.says("infeasible", {
      allocatedResourceStatuses: { storage: "ControllerResizeInfeasible" },
      conditions: [{ type: "ControllerResizeError", status: "True", message: "pool fast-1 is full" }],
    });
    const filesystem = await untilRead("Stalled", readFilesystem("infeasible"), (one) =>
      Boolean(one?.status?.conditions?.some(({ type, status }) => type === "Stalled" && status === "True")),
    );
    expect(filesystem?.status?.conditions?.find(({ type }) => type === "Stalled")).toMatchObject({
      reason: "ResizeInfeasible",
      message: `driver ${DRIVER} cannot expand the volume from 10Gi to 15Gi: pool fast-1 is full`,
    });
    const decidedAt = await driver.want("infeasible", "20Gi", "10Gi");
    await untilLayout(handle, (one) => one?.spec.target?.decidedAt === decidedAt);
    expect(requestOf(await readClaim("infeasible")())).toBe("15Gi");
  });

  it("keeps its request when the policy is disabled, and a target from before is not taken up afterwards", async () => {
    const handle = await adopted("left");
    await driver.want("left", "12Gi", "10Gi");
    await untilRequested("left", "12Gi");
    await driver.says("left", { capacity: { storage: "12Gi" } });
    await driver.policy("in", "Disabled");
    await untilNothingIsAdopted();
    const setAside = await driver.want("left", "18Gi", "12Gi");
    await untilLayout(handle, (one) => one?.spec.target?.decidedAt === setAside);
    expect(requestOf(await readClaim("left")())).toBe("12Gi");
    await driver.policy("in", "Enabled");
    await untilSettled();
    expect(requestOf(await readClaim("left")())).toBe("12Gi");
    const again = await driver.want("left", "16Gi", "12Gi");
    await untilRequested("left", "16Gi");
    await untilLayout(handle, (one) => one?.spec.target?.decidedAt === again);
  });

  it("is left to another autoscaler whose annotations it carries", async () => {
    const handle = await adopted("theirs");
    await cluster.client.mergePatch(
      "test/annotate",
      PERSISTENT_VOLUME_CLAIMS,
      { namespace, name: "theirs" },
      {
        metadata: { annotations: { "resize.topolvm.io/storage_limit": "1Ti" } },
      },
    );
    const decidedAt = await driver.want("theirs", "15Gi", "10Gi");
    await untilLayout(handle, (one) => one?.spec.target?.decidedAt === decidedAt);
    expect(requestOf(await readClaim("theirs")())).toBe("10Gi");
    await eventMessage(cluster.client, "theirs", "OtherAutoscaler", "resize.topolvm.io/storage_limit");
  });

  it("leaves nothing of ours behind when it is deleted", async () => {
    const handle = await adopted("going");
    await cluster.client.delete("test/delete", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "going" });
    await untilLayout(handle, (one) => one === undefined);
    await untilRead("its Filesystem is gone", readFilesystem("going"), (one) => one === undefined);
  });

  it("gets layout and Filesystem again when somebody has deleted them", async () => {
    const handle = await adopted("lost");
    await cluster.client.delete("test/delete", FILESYSTEM_LAYOUTS, { name: handle });
    await cluster.client.delete("test/delete", FILESYSTEMS, { namespace, name: "lost" });
    await untilLayout(handle, (one) => one !== undefined);
    await untilAdopted("lost");
  });
});
