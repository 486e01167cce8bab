// Carries a plan to the API server: the target on the Filesystem, the emergency grant on the FilesystemLayout. Each write
// carries the leader's epoch, so that a deposed leader's late write is refused by the server or by the agent.
import { FILESYSTEMS, type Filesystem } from "../../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client.ts";
import { formatQuantity } from "../../units/quantity.ts";

const OPTIONS = { fieldManager: FIELD_MANAGERS.policyEngine, force: true } as const;

export interface TargetToApply {
  readonly sizeBytes: number;
  readonly fromBytes: number;
  readonly epoch: number;
  /** RFC 3339; names this target. */
  readonly decidedAt: string;
}

/** Throws KubeError; "Invalid" where a newer leader's epoch stands already. */
export async function applyTarget(client: KubeClient, filesystem: Filesystem, target: TargetToApply): Promise<void> {
  const { namespace, name, uid } = filesystem.metadata;
  await client.apply(
    "target/apply-filesystem",
    FILESYSTEMS,
    {
      apiVersion: API_VERSION,
      kind: "Filesystem",
      // The uid: a Filesystem that was deleted and made again is another one.
      metadata: { namespace, name, uid },
      spec: {
        target: {
          size: formatQuantity(target.sizeBytes),
          from: formatQuantity(target.fromBytes),
          epoch: target.epoch,
          decidedAt: target.decidedAt,
        },
      },
    },
    OPTIONS,
  );
}

export interface GrantToApply {
  readonly sizeBytes: number;
  readonly minAvailableBytes: number;
  readonly expiresAtMs: number;
  readonly epoch: number;
}

/** Writes the grant, or takes it back (undefined). */
export async function applyGrant(
  client: KubeClient,
  layout: FilesystemLayout,
  grant: GrantToApply | undefined,
): Promise<void> {
  const emergency = grant && {
    size: formatQuantity(grant.sizeBytes),
    minAvailable: formatQuantity(grant.minAvailableBytes),
    expiry: new Date(grant.expiresAtMs).toISOString(),
    epoch: grant.epoch,
  };
  await client.apply(
    "grant/apply-layout",
    FILESYSTEM_LAYOUTS,
    {
      apiVersion: API_VERSION,
      kind: "FilesystemLayout",
      metadata: { name: layout.metadata.name, uid: layout.metadata.uid },
      spec: emergency === undefined ? {} : { emergency },
    },
    OPTIONS,
  );
}
