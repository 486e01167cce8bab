// Carries a plan to the API server: the target on the Filesystem, the emergency grant on the FilesystemLayout. Each write
// carries the leader's epoch, so that a deposed leader's late write is refused by the server or by the agent.
import { FILESYSTEMS, type Filesystem } from "../../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import type { TrimRequest } from "../../api/trim.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { sameObject, versionOf } from "../../kube/client/on-latest.ts";
import { formatQuantity } from "../../units/quantity.ts";

const OPTIONS = { fieldManager: FIELD_MANAGERS.policyEngine, force: true } as const;

export interface TargetToApply {
  readonly sizeBytes: number;
  readonly fromBytes: number;
  /** The most members that it shall have then; undefined: any. */
  readonly members?: number | undefined;
  readonly epoch: number;
  /** RFC 3339; names this target. */
  readonly decidedAt: string;
  /** Of a shrink that waits for an unmount. */
  readonly notAfterMs?: number | undefined;
}

/**
 * Writes a new target, and with it the trims that the policy asks for: an apply takes back what it leaves out. Returns the Filesystem as
 * it is then. Throws KubeError; "Invalid" where a newer leader's epoch stands already.
 */
export async function applyTarget(
  client: KubeClient,
  filesystem: Filesystem,
  target: TargetToApply,
  trim: TrimRequest | undefined,
): Promise<Filesystem> {
  const { namespace, name, uid } = filesystem.metadata;
  return client.apply(
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
          ...(target.notAfterMs === undefined ? {} : { notAfter: new Date(target.notAfterMs).toISOString() }),
          ...(target.members === undefined ? {} : { members: target.members }),
        },
        ...(trim === undefined ? {} : { trim }),
      },
    },
    OPTIONS,
  );
}

/**
 * Writes or takes back (undefined) the trims, and leaves the target as it stands on the API server: read there, and written on that
 * very version, since a cached one may be behind. A newer leader's Filesystem is left alone. Throws KubeError.
 */
export async function applyTrim(
  client: KubeClient,
  filesystem: Filesystem,
  trim: TrimRequest | undefined,
  epoch: number,
): Promise<void> {
  const live = sameObject(filesystem, await client.get(FILESYSTEMS, filesystem.metadata));
  if (live === undefined) return;
  const { target } = live.spec;
  if (target !== undefined && target.epoch > epoch) return;
  await client.apply(
    "trim/apply-filesystem",
    FILESYSTEMS,
    {
      apiVersion: API_VERSION,
      kind: "Filesystem",
      metadata: versionOf(live),
      spec: { ...(target === undefined ? {} : { target }), ...(trim === undefined ? {} : { trim }) },
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
