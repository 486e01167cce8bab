// Carries a plan to the API server: the target on the Filesystem, the emergency grant on the FilesystemLayout. Each write
// carries the leader's epoch, so that a deposed leader's late write is refused by the server or by the agent.
import { FILESYSTEMS, type Filesystem } from "../../contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { type Grant, writeGrant } from "../../contracts/kinds/grant.ts";
import { type DecidedTarget, writeTarget } from "../../contracts/kinds/target.ts";
import type { TrimRequest } from "../../contracts/kinds/trim.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { sameObject, versionOf } from "../../platform/kube/client/writes.ts";
import { KubeError } from "../../platform/kube/kube-error.ts";

const OPTIONS = { fieldManager: FIELD_MANAGERS.policyEngine, force: true } as const;

/**
 * Writes a new target with its reason, and with it the trims that the policy asks for: an apply takes back what it leaves out. Returns the
 * Filesystem as it is then. The definition that an API server still has while this is rolled out knows no reason, and refuses the whole
 * target for it: then it is written without. Throws KubeError; "Invalid" where a newer leader's epoch stands already.
 */
export async function applyTarget(
  client: KubeClient,
  filesystem: Filesystem,
  target: DecidedTarget,
  trim: TrimRequest | undefined,
): Promise<Filesystem> {
  try {
    return await applyOnce(client, filesystem, target, trim);
  } catch (error) {
    const isUnknown = error instanceof KubeError && UNKNOWN_REASON.test(error.message);
    if (target.why === undefined || !isUnknown) throw error;
    return applyOnce(client, filesystem, { ...target, why: undefined }, trim);
  }
}

const UNKNOWN_REASON = /\.spec\.target\.(policy|rule|reason|message): field not declared/;

async function applyOnce(
  client: KubeClient,
  filesystem: Filesystem,
  target: DecidedTarget,
  trim: TrimRequest | undefined,
): Promise<Filesystem> {
  const { namespace, name, uid } = filesystem.metadata;
  return client.apply(
    "target/apply-filesystem",
    FILESYSTEMS,
    {
      apiVersion: API_VERSION,
      kind: "Filesystem",
      // The uid: a Filesystem that was deleted and recreated is another one.
      metadata: { namespace, name, uid },
      spec: {
        target: writeTarget(target),
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

/** Writes the grant, or takes it back (undefined). Returns the layout as it is then. */
export async function applyGrant(
  client: KubeClient,
  layout: FilesystemLayout,
  grant: Grant | undefined,
): Promise<FilesystemLayout> {
  return client.apply(
    "grant/apply-layout",
    FILESYSTEM_LAYOUTS,
    {
      apiVersion: API_VERSION,
      kind: "FilesystemLayout",
      metadata: { name: layout.metadata.name, uid: layout.metadata.uid },
      spec: grant === undefined ? {} : { emergency: writeGrant(grant) },
    },
    OPTIONS,
  );
}
