// One span as the operator, the attachers of its members' driver and kubelet would handle it, on a real agent with a real member
// driver beside it. The layout is the whole interface between them, and the tests write it.
import { mkdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { createNodePort, type NodePort } from "../../../demo/stand-ins/csi-client.ts";
import { NodeClient, VolumeCapability_AccessMode_Mode } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { volumeHandleOf } from "../../../src/contracts/identity.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutSpec,
  type MemberSpec,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { formatQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { type LoopMemberDriver, startLoopMemberDriver } from "../../harness/loop-member-driver.ts";
import { memberStates } from "../../harness/member-states.ts";
import { type AgentUnderTest, NODE_NAME } from "./agent-under-test.ts";

export const DRIVER = "members.example.com";

export interface SpanParts {
  readonly driver: LoopMemberDriver;
  /** What kubelet calls for spans. */
  readonly node: NodePort;
  readonly nodeClient: NodeClient;
  /** For `startAgent`. */
  readonly flags: Record<string, string>;
  startDriver(): Promise<LoopMemberDriver>;
  close(): Promise<void>;
}

export async function createSpanParts(agent: AgentUnderTest): Promise<SpanParts> {
  const socket = join(agent.directory, "run/span-csi.sock");
  const registrationDirectory = join(agent.directory, "kubelet/plugins_registry");
  mkdirSync(registrationDirectory);
  const startDriver = (): Promise<LoopMemberDriver> =>
    startLoopMemberDriver(DRIVER, join(agent.directory, "driver"), registrationDirectory);
  const driver = await startDriver();
  const node = createNodePort(socket, directEffects);
  const nodeClient = new NodeClient(`unix://${socket}`, credentials.createInsecure());
  return {
    driver,
    node,
    nodeClient,
    flags: { "span-csi-socket": socket },
    startDriver,
    close: async () => {
      node.close();
      nodeClient.close();
      await driver.stop();
    },
  };
}

export interface SpanUnderTest {
  readonly handle: string;
  readonly stagingPath: string;
  readonly targetPath: string;
  /** A provisioned and bound claim's volume; attached to the agent's node unless it is said otherwise. */
  member(name: string, sizeBytes: number, attached?: "attached" | "on its way"): MemberSpec;
  applyLayout(change: Partial<FilesystemLayoutSpec>): Promise<void>;
  layout(): Promise<FilesystemLayout>;
  /** As its node reports them. */
  memberStates(): Promise<string[]>;
  stage(): Promise<void>;
  publish(): Promise<void>;
  unpublish(): Promise<void>;
  unstage(): Promise<void>;
  capacityBytes(): number;
}

export function spanUnderTest(agent: AgentUnderTest, { driver, node }: SpanParts, volumeUID: string): SpanUnderTest {
  const handle = volumeHandleOf(volumeUID);
  const stagingPath = join(agent.directory, "kubelet/plugins/kubernetes.io/csi", handle, "globalmount");
  const targetPath = join(agent.directory, "kubelet/pods", handle, "mount");
  const volumeCapability = {
    accessType: { $case: "mount" as const, value: { fsType: "", mountFlags: [], volumeMountGroup: "" } },
    accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
  };
  const request = {
    ...{ volumeId: handle, stagingTargetPath: stagingPath, volumeCapability },
    ...{ publishContext: {}, secrets: {}, volumeContext: {} },
  };
  const spec: FilesystemLayoutSpec = {
    claimRef: { namespace: "shop", name: "data", uid: volumeUID },
    volumeUID,
    backend: "span",
    fsType: "btrfs",
    nodeName: NODE_NAME,
  };
  const layout = async (): Promise<FilesystemLayout> => {
    const found = await agent.client.get(FILESYSTEM_LAYOUTS, { name: handle });
    if (found === undefined) throw new Error(`no layout ${handle}`);
    return found;
  };
  return {
    handle,
    stagingPath,
    targetPath,
    member: (name, sizeBytes, attached = "attached") => {
      const volumeHandle = `${handle}-${name}`;
      driver.createVolume(volumeHandle, sizeBytes);
      const claim = {
        name: volumeHandle,
        uid: `uid-of-${name}`,
        volumeName: `pv-of-${name}`,
        driver: DRIVER,
        volumeHandle,
        volumeAttributes: { pool: "slow" },
        capacity: formatQuantity(sizeBytes),
        ...(attached === "attached" ? { attachment: attachmentOf(name) } : {}),
      };
      return { name, size: formatQuantity(sizeBytes), source: { claim } };
    },
    applyLayout: async (change) => {
      const applied = {
        apiVersion: API_VERSION,
        kind: "FilesystemLayout",
        metadata: { name: handle },
        spec: { ...spec, ...change },
      };
      await agent.client.apply("test/layout", FILESYSTEM_LAYOUTS, applied, { fieldManager: FIELD_MANAGERS.operator });
    },
    layout,
    memberStates: async () => memberStates((await layout()).status?.members),
    stage: async () => {
      mkdirSync(stagingPath, { recursive: true });
      await node.stage(request);
    },
    publish: async () => {
      mkdirSync(join(targetPath, ".."), { recursive: true });
      await node.publish({ ...request, targetPath, readonly: false });
    },
    unpublish: () => node.unpublish({ volumeId: handle, targetPath }),
    unstage: () => node.unstage({ volumeId: handle, stagingTargetPath: stagingPath }),
    capacityBytes: () => {
      const { blocks, bsize } = statfsSync(stagingPath);
      return blocks * bsize;
    },
  };
}

/** As the VolumeAttachment's status would say. */
function attachmentOf(name: string): { nodeName: string; name: string; context: Record<string, string> } {
  return { nodeName: NODE_NAME, name: `tidemark-${name}`, context: { attached: "yes" } };
}

export function attached(member: MemberSpec): MemberSpec {
  const { claim } = member.source;
  if (claim === undefined) throw new Error(`${member.name} has no claim`);
  return { ...member, source: { claim: { ...claim, attachment: attachmentOf(member.name) } } };
}

/** As the operator asks for more; `done` once the claim's volume has it. */
export function larger(member: MemberSpec, size: string, done: "asked for" | "done"): MemberSpec {
  const { claim } = member.source;
  if (claim === undefined) throw new Error(`${member.name} has no claim`);
  return { ...member, size, source: { claim: done === "done" ? { ...claim, capacity: size } : claim } };
}

export function leaving(member: MemberSpec): MemberSpec {
  return { ...member, state: "Removed" };
}
