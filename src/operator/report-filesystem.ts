// Says the operator's part of a Filesystem's status, under the version that it was decided on. Where somebody else has written since, it is
// decided again on what stands there, so that a policy-engine that reports faster than the operator looks never holds it up.
import { FILESYSTEMS, type Filesystem } from "../api/filesystem.ts";
import { FIELD_MANAGERS } from "../api/names.ts";
import { shows } from "../kube/client/apply-on-change.ts";
import type { ApplyConfiguration, KubeClient } from "../kube/client/client.ts";
import { onLatest, sameObject } from "../kube/client/on-latest.ts";
import { isKubeError } from "../kube/kube-error.ts";
import type { EffectPoint } from "../process/effects.ts";
import { saidByOperator } from "./filesystem-status.ts";

const APPLY = { fieldManager: FIELD_MANAGERS.operator, force: true } as const;

/**
 * `decide` is handed the Filesystem as it is, with the generation of `filesystem`, of which the facts are: a status that is behind the
 * Filesystem's generation reads as "in progress". Nothing is said of a Filesystem that is gone, that is another one, or of which an operator
 * has said anything else since: that one knew more, and its change has the volume looked at again. Throws KubeError: "Conflict" where each
 * attempt met one, for the queue's back-off.
 */
export async function reportFilesystem(
  client: KubeClient,
  point: EffectPoint,
  filesystem: Filesystem,
  decide: (live: Filesystem) => ApplyConfiguration,
): Promise<void> {
  const { generation } = filesystem.metadata;
  await onLatest<Filesystem | undefined, void>(
    filesystem,
    async () => sameObject(filesystem, await client.get(FILESYSTEMS, filesystem.metadata)),
    async (live) => {
      if (live === undefined || !saysTheSame(live, filesystem)) return;
      const seen = { ...live, metadata: { ...live.metadata, ...(generation === undefined ? {} : { generation }) } };
      await applyUnlessGone(client, point, decide(seen));
    },
  );
}

function saysTheSame({ status: live }: Filesystem, { status: before }: Filesystem): boolean {
  const [now, then] = [saidByOperator(live), saidByOperator(before)];
  return shows(now, then) && shows(then, now);
}

async function applyUnlessGone(client: KubeClient, point: EffectPoint, status: ApplyConfiguration): Promise<void> {
  try {
    await client.apply(point, FILESYSTEMS, status, { ...APPLY, subresource: "status" });
  } catch (error) {
    if (!isKubeError(error, "NotFound")) throw error;
  }
}
