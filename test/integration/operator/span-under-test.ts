// A span volume as its callers see it: csi-provisioner and csi-attacher on the socket, the policy-engine by its target, and the
// node's agent by what it reports.
import { randomUUID } from "node:crypto";
import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import {
  ControllerClient,
  type ControllerExpandVolumeResponse,
  type ControllerPublishVolumeResponse,
  type ControllerUnpublishVolumeResponse,
  type CreateVolumeRequest,
  type CreateVolumeResponse,
  type DeleteVolumeResponse,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEMS, type FilesystemStatus } from "../../../src/contracts/kinds/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS, MEMBER_NAMESPACE } from "../../../src/contracts/names.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { buildCreateVolumeRequest, mountCapability } from "../../builders/create-volume-request.ts";
import { MEMBER_CLASS } from "../../fakes/member-sidecars.ts";
import { untilRead } from "../../harness/wait-for.ts";
import type { TestCluster } from "./cluster.ts";

type Condition = NonNullable<FilesystemStatus["conditions"]>[number];

export interface SpanUnderTest {
  /** A request for 2 GiB of a volume of its own; its claim is data-NUMBER in "shop". */
  request(parameters?: Record<string, string>, fields?: Partial<CreateVolumeRequest>): CreateVolumeRequest;
  create(request: CreateVolumeRequest): Promise<CreateVolumeResponse>;
  created(parameters?: Record<string, string>): Promise<{ readonly handle: string; readonly claim: string }>;
  publish(volumeId: string, nodeId: string): Promise<ControllerPublishVolumeResponse>;
  unpublish(volumeId: string, nodeId: string): Promise<ControllerUnpublishVolumeResponse>;
  expand(volumeId: string, requiredBytes: number): Promise<ControllerExpandVolumeResponse>;
  remove(volumeId: string): Promise<DeleteVolumeResponse>;
  layout(handle: string): Promise<FilesystemLayout | undefined>;
  untilLayout(what: string, handle: string, holds: (layout: FilesystemLayout) => boolean): Promise<FilesystemLayout>;
  /** Of the claim's Filesystem. */
  condition(claim: string, type: string): Promise<Condition | undefined>;
  untilCondition(
    what: string,
    claim: string,
    type: string,
    holds: (condition: Condition) => boolean,
  ): Promise<Condition>;
  /** As the policy-engine decides it. */
  target(claim: string, size: string, from: string): Promise<void>;
  /** An emergency, as the policy-engine grants it. */
  grant(handle: string, size: string): Promise<void>;
  /** As the agent reports it: the members of its filesystem. */
  report(handle: string, status: FilesystemLayoutStatus): Promise<void>;
  claims(handle: string): Promise<string[]>;
  volumes(handle: string): Promise<(string | undefined)[]>;
  attachments(): Promise<VolumeAttachment[]>;
  close(): void;
}

type Unary<Response> = (callback: (error: ServiceError | null, response: Response) => void) => unknown;

function answer<Response>(call: Unary<Response>): Promise<Response> {
  return new Promise((resolve, reject) => {
    call((error, response) => (error === null ? resolve(response) : reject(error)));
  });
}

async function untilThere<T>(what: string, read: () => Promise<T | undefined>, holds: (one: T) => boolean): Promise<T> {
  const found = await untilRead(what, read, (one) => one !== undefined && holds(one));
  if (found === undefined) throw new Error(`${what}: there is none`);
  return found;
}

/** Of a layout: whether this member of it is attached to a node. */
export const isAttached =
  (name: string) =>
  ({ spec }: FilesystemLayout): boolean =>
    spec.members?.find((member) => member.name === name)?.source.claim?.attachment !== undefined;

export function spanUnderTest({
  client,
  spanSocket,
}: { readonly client: KubeClient } & Pick<TestCluster, "spanSocket">): SpanUnderTest {
  const controller = new ControllerClient(`unix://${spanSocket}`, credentials.createInsecure(), {
    "grpc.initial_reconnect_backoff_ms": 50,
    "grpc.max_reconnect_backoff_ms": 200,
  });
  const none = (): Metadata => new Metadata();
  let count = 0;
  let decided = 0;
  const inMembers = (handle: string) => (name: string | undefined) => name?.startsWith(`${handle}-`) === true;
  const span: SpanUnderTest = {
    request: (parameters = {}, fields = {}) => {
      count += 1;
      return buildCreateVolumeRequest({
        name: `by-hand-${randomUUID()}`,
        capacityRange: { requiredBytes: 2 * GIB, limitBytes: 0 },
        parameters: {
          backend: "span",
          memberStorageClassName: MEMBER_CLASS,
          "csi.storage.k8s.io/pvc/name": `data-${count}`,
          "csi.storage.k8s.io/pvc/namespace": "shop",
          ...parameters,
        },
        ...fields,
      });
    },
    create: (request) => answer((callback) => controller.createVolume(request, none(), callback)),
    created: async (parameters) => {
      const request = span.request(parameters);
      const { volume } = await span.create(request);
      return { handle: volume?.volumeId ?? "", claim: request.parameters["csi.storage.k8s.io/pvc/name"] ?? "" };
    },
    publish: (volumeId, nodeId) => {
      const request = { volumeId, nodeId, readonly: false, secrets: {}, volumeContext: {} };
      return answer((callback) =>
        controller.controllerPublishVolume({ ...request, volumeCapability: mountCapability() }, none(), callback),
      );
    },
    unpublish: (volumeId, nodeId) =>
      answer((callback) => controller.controllerUnpublishVolume({ volumeId, nodeId, secrets: {} }, none(), callback)),
    expand: (volumeId, requiredBytes) => {
      const capacityRange = { requiredBytes, limitBytes: 0 };
      const request = { volumeId, capacityRange, secrets: {}, volumeCapability: undefined };
      return answer((callback) => controller.controllerExpandVolume(request, none(), callback));
    },
    remove: (volumeId) => answer((callback) => controller.deleteVolume({ volumeId, secrets: {} }, none(), callback)),
    layout: (handle) => client.get(FILESYSTEM_LAYOUTS, { name: handle }),
    untilLayout: (what, handle, holds) => untilThere(what, () => span.layout(handle), holds),
    condition: async (claim, type) => {
      const filesystem = await client.get(FILESYSTEMS, { namespace: "shop", name: claim });
      return filesystem?.status?.conditions?.find((condition) => condition.type === type);
    },
    untilCondition: (what, claim, type, holds) => untilThere(what, () => span.condition(claim, type), holds),
    target: async (claim, size, from) => {
      decided += 1;
      const decidedAt = new Date(Date.parse("2030-01-01T00:00:00Z") + decided).toISOString();
      const metadata = { namespace: "shop", name: claim };
      await client.apply(
        "test/target",
        FILESYSTEMS,
        {
          apiVersion: API_VERSION,
          kind: "Filesystem",
          metadata,
          spec: { target: { size, from, epoch: 1, decidedAt } },
        },
        { fieldManager: FIELD_MANAGERS.policyEngine },
      );
    },
    grant: async (handle, size) => {
      const emergency = { size, minAvailable: "200Mi", expiry: "2040-01-01T00:00:00Z", epoch: 1 };
      const layout = {
        apiVersion: API_VERSION,
        kind: "FilesystemLayout",
        metadata: { name: handle },
        spec: { emergency },
      };
      await client.apply("test/grant", FILESYSTEM_LAYOUTS, layout, { fieldManager: FIELD_MANAGERS.policyEngine });
    },
    report: async (handle, status) => {
      await client.apply(
        "test/report",
        FILESYSTEM_LAYOUTS,
        { apiVersion: API_VERSION, kind: "FilesystemLayout", metadata: { name: handle }, status },
        { fieldManager: FIELD_MANAGERS.agent, subresource: "status", force: true },
      );
    },
    claims: async (handle) => {
      const { items } = await client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE });
      return items
        .map(({ metadata }) => metadata.name)
        .filter(inMembers(handle))
        .sort();
    },
    volumes: async (handle) => {
      const { items } = await client.list(PERSISTENT_VOLUMES);
      return items.map(({ spec }) => spec.claimRef?.name).filter(inMembers(handle));
    },
    attachments: async () => (await client.list(VOLUME_ATTACHMENTS)).items,
    close: () => controller.close(),
  };
  return span;
}
