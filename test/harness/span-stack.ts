// A stack whose member driver is real, too: spans are made, attached, staged and extended as the sidecars, kubelet and people would
// have it, on loop devices and btrfs. Operator, policy-engine and agent decide all the rest.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createNodePort, type NodePort } from "../../demo/stand-ins/csi-client.ts";
import { volumeNameOf } from "../../demo/stand-ins/volume-request.ts";
import { VolumeCapability_AccessMode_Mode } from "../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import {
  CSI_NODES,
  NAMESPACES,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  STORAGE_CLASSES,
  VOLUME_ATTACHMENTS,
} from "../../src/contracts/kubernetes/resources.ts";
import { SPAN_DRIVER } from "../../src/contracts/names.ts";
import { formatQuantity, GIB } from "../../src/contracts/quantities/quantity.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import {
  createMemberClass,
  MEMBER_CLASS,
  MEMBER_DRIVER,
  startMemberSidecars,
  ZONE_KEY,
} from "../fakes/member-sidecars.ts";
import { type SpanUnderTest, spanUnderTest } from "../integration/operator/span-under-test.ts";
import { bindToSpan } from "./bind-claim.ts";
import { persist } from "./crashing-operator.ts";
import { type LoopMemberDriver, startLoopMemberDriver } from "./loop-member-driver.ts";
import { memberStates } from "./member-states.ts";
import { createStack, NODE_NAME, SPAN_SOCKETS, STACK_PROCESSES, type Stack } from "./stack.ts";
import { waitFor } from "./wait-for.ts";

export const SHOP = "shop";

export interface SpanStack {
  readonly stack: Stack;
  readonly span: SpanUnderTest;
  readonly driver: LoopMemberDriver;
  /** A claim's span of so many members of 1Gi, mounted; of a class with these parameters. */
  mountedSpan(name: string, members: number, parameters?: Record<string, string>): Promise<MountedSpan>;
  expandsMembers(allowVolumeExpansion: boolean): Promise<void>;
  /** How many volumes the members' driver attaches to the node; and how many it has. */
  setSlots(count: number): Promise<void>;
  usedSlots(): Promise<number>;
  close(): Promise<void>;
}

export interface MountedSpan {
  readonly handle: string;
  readonly path: string;
  layout(): Promise<FilesystemLayout>;
  /** As the layout asks for them, once its node has just those. */
  untilMembers(...states: string[]): Promise<void>;
}

export async function startSpanStack(): Promise<SpanStack> {
  const stack = await createStack({ spans: true });
  const [operatorSocket, agentSocket] = [SPAN_SOCKETS.operator, SPAN_SOCKETS.agent].map((socket) =>
    join(stack.directory, socket),
  ) as [string, string];
  const { client } = stack;
  const registrations = join(stack.kubeletDirectory, "plugins_registry");
  mkdirSync(registrations);
  const driver = await startLoopMemberDriver(MEMBER_DRIVER, join(stack.directory, "driver"), registrations);
  const sidecars = await startMemberSidecars(client, createLogger("test", "silent"), {
    create: driver.createVolume,
    expand: driver.growVolume,
    remove: driver.deleteVolume,
    context: () => ({ attached: "yes" }),
  });
  await client.create("test/namespace", NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata: { name: SHOP } });
  const labels = { [ZONE_KEY]: "a" };
  await client.mergePatch("test/node", NODES, { name: NODE_NAME }, { metadata: { labels } });
  await createMemberClass(client, "spans", true, SPAN_DRIVER);
  for (const name of STACK_PROCESSES) await stack.start(name);
  const span = spanUnderTest({ client, spanSocket: operatorSocket });
  const node = createNodePort(agentSocket, directEffects);
  return {
    stack,
    span,
    driver,
    mountedSpan: (name, members, parameters = {}) => mountSpan(stack, span, node, name, members, parameters),
    expandsMembers: async (allowVolumeExpansion) => {
      const change = { allowVolumeExpansion };
      await client.mergePatch("test/expansion", STORAGE_CLASSES, { name: MEMBER_CLASS }, change);
    },
    setSlots: async (count) => {
      const { spec } = (await client.get(CSI_NODES, { name: NODE_NAME })) ?? { spec: { drivers: [] } };
      const others = spec.drivers.filter((one) => one.name !== MEMBER_DRIVER);
      const drivers = [...others, { name: MEMBER_DRIVER, nodeID: NODE_NAME, allocatable: { count } }];
      await client.mergePatch("test/slots", CSI_NODES, { name: NODE_NAME }, { spec: { drivers } });
    },
    usedSlots: async () =>
      (await client.list(VOLUME_ATTACHMENTS)).items.filter(({ spec }) => spec.attacher === MEMBER_DRIVER).length,
    close: async () => {
      span.close();
      node.close();
      await sidecars.stop();
      await driver.stop();
      await stack.close();
    },
  };
}

async function mountSpan(
  stack: Stack,
  span: SpanUnderTest,
  node: NodePort,
  name: string,
  members: number,
  parameters: Record<string, string>,
): Promise<MountedSpan> {
  const { client } = stack;
  const metadata = { namespace: SHOP, name, labels: { case: name } };
  const claim = await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata,
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, storageClassName: "spans" },
  });
  const request = span.request(
    { "csi.storage.k8s.io/pvc/name": name, ...parameters },
    { name: volumeNameOf(claim), capacityRange: { requiredBytes: GIB, limitBytes: 0 } },
  );
  const { volume } = await persist(() => span.create(request));
  const handle = volume?.volumeId ?? "";
  const volumeContext = volume?.volumeContext ?? {};
  await bindToSpan(client, claim, volume, "1Gi");
  const status = { phase: "Bound", capacity: { storage: "1Gi" } };
  await client.mergePatch("test/bound", PERSISTENT_VOLUME_CLAIMS, { namespace: SHOP, name }, { status }, "status");
  await persist(() => span.publish(handle, NODE_NAME));
  const path = join(stack.kubeletDirectory, "plugins/kubernetes.io/csi", handle, "globalmount");
  mkdirSync(path, { recursive: true });
  const volumeCapability = {
    accessType: { $case: "mount" as const, value: { fsType: "", mountFlags: [], volumeMountGroup: "" } },
    accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
  };
  const staging = { volumeId: handle, stagingTargetPath: path, volumeCapability, publishContext: {}, secrets: {} };
  await persist(() => node.stage({ ...staging, volumeContext }));
  const layout = async (): Promise<FilesystemLayout> => {
    const found = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
    if (found === undefined) throw new Error(`no layout ${handle}`);
    return found;
  };
  const untilMembers = async (...states: string[]): Promise<void> => {
    const isSo = async (): Promise<true | undefined> => {
      const { spec, status } = await layout();
      return [spec.members, status?.members].every((all) => memberStates(all).join() === states.join()) || undefined;
    };
    await waitFor(`${name} to be made of ${states.join(", ")}`, isSo, {
      otherwise: async () => {
        const filesystem = await client.get(FILESYSTEMS, { namespace: SHOP, name });
        const { spec, status } = await layout();
        return `${JSON.stringify({ filesystem, spec, status })}\n${stack.tellLogs()}`;
      },
    });
  };
  for (let count = 2; count <= members; count += 1) {
    const storage = formatQuantity(count * GIB);
    const raised = { spec: { resources: { requests: { storage } } } };
    await client.mergePatch("test/raise", PERSISTENT_VOLUME_CLAIMS, { namespace: SHOP, name }, raised);
    await persist(() => span.expand(handle, count * GIB));
    await untilMembers(...Array.from({ length: count }, (_, index) => `m${index} 1Gi Present`));
  }
  return { handle, path, layout, untilMembers };
}
