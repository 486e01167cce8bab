// Keeps the ConfigMap that the admission policies of kustomize/foundation/member-guard.yaml ask: whether there are members, logical volumes
// among them, and who may take one away. While it is missing nothing of a member may be deleted, so it is looked for again and again.
import { FIELD_MANAGERS, MEMBER_NAMESPACE } from "../../api/names.ts";
import { shows } from "../../kube/client/apply-on-change.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { CONFIG_MAPS } from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import { createMemberNamespace } from "./member-home.ts";

const NAME = "tidemark-members";
const LOOK_AGAIN_MS = 30_000;
const BACK_OFF = { baseMs: 100, capMs: 10_000 };

/** `userName`: the operator's, as the API server knows it. */
export function createGuardKeeper(
  client: KubeClient,
  caches: Pick<VolumeCaches, "memberClaims" | "logicalVolumes" | "synced">,
  userName: string,
  log: Logger,
): Duty {
  const { memberClaims, logicalVolumes, synced } = caches;
  const queue = createLedQueue(
    { synced, keys: () => [NAME] },
    {
      name: "member-guard",
      concurrency: 1,
      run: async () => {
        const count = memberClaims.store.size + logicalVolumes.store.size;
        await keep(client, { members: count === 0 ? "none" : "some", operator: userName });
        return { againAfterMs: LOOK_AGAIN_MS };
      },
      log,
      backOff: BACK_OFF,
    },
  );
  memberClaims.subscribe({ added: queue.addAll, deleted: queue.addAll });
  logicalVolumes.subscribe({ added: queue.addAll, deleted: queue.addAll });
  return queue;
}

async function keep(client: KubeClient, data: Record<string, string>): Promise<void> {
  const metadata = { namespace: MEMBER_NAMESPACE, name: NAME };
  if (shows((await client.get(CONFIG_MAPS, metadata))?.data, data)) return;
  const configuration = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
  const options = { fieldManager: FIELD_MANAGERS.operator, force: true };
  try {
    await client.apply("member-guard/count", CONFIG_MAPS, configuration, options);
  } catch (error) {
    if (!isKubeError(error, "NotFound")) throw error;
    await createMemberNamespace(client);
    await client.apply("member-guard/count", CONFIG_MAPS, configuration, options);
  }
}
