// The namespace of members. It is read each time that a member is to be placed there: that is once for each claim that is made, and what
// waits for it asks again by itself. And the ConfigMap that the admission policies of kustomize/foundation/member-guard.yaml ask: whether
// there are members, logical volumes among them, and who may take one away. While it is missing nothing of a member may be deleted, so it
// is looked for again and again.
import { type KubeObject, type Resource, resourceLabel } from "../../contracts/kubernetes/object.ts";
import {
  CONFIG_MAPS,
  NAMESPACES,
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "../../contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS, MEMBER_NAMESPACE } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { shows } from "../../platform/kube/client/writes.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import { AGAIN_AFTER_MS, BACK_OFFS } from "../../platform/process/async/back-off.ts";
import type { Logger } from "../../platform/process/log.ts";
import { HOME_GUARDS, HOME_LABELS, type HomeGuard, homeProblem, missingRight } from "../decide/decide-home.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import { KEPT_BY_GITOPS } from "../volumes/member-objects.ts";

export interface MemberHome {
  /** Why no member may be placed there; undefined: one may. The namespace is made where it is missing. Throws KubeError. */
  problem(): Promise<string | undefined>;
}

/** What places members. */
export interface Placing {
  readonly client: KubeClient;
  readonly home: MemberHome;
}

/** No member is placed in a namespace that is not known to be Tidemark's. */
export class UnsafeHomeError extends Error {
  override name = "UnsafeHomeError";
}

export interface HomeRules {
  /** False where no API server asks admission policies. */
  readonly guardsRequired: boolean;
}

export function createMemberHome(client: KubeClient, rules: HomeRules, log: Logger): MemberHome {
  let told: string | undefined;
  return {
    problem: async () => {
      const problem = await lookAt(client, rules);
      if (problem !== told) log.warn({ problem: problem ?? "no problem now" }, "where members are placed");
      told = problem;
      return problem;
    },
  };
}

async function lookAt(client: KubeClient, { guardsRequired }: HomeRules): Promise<string | undefined> {
  try {
    const [namespace, guards] = await Promise.all([readNamespace(client), guardsRequired ? readGuards(client) : []]);
    return homeProblem(namespace, guards);
  } catch (error) {
    if (error instanceof UnreadableError) return missingRight(resourceLabel(error.resource), error.message);
    throw error;
  }
}

async function readNamespace(client: KubeClient) {
  const name = { name: MEMBER_NAMESPACE };
  const found = await readable(NAMESPACES, client.get(NAMESPACES, name));
  if (found !== undefined) return found;
  await createMemberNamespace(client);
  return client.get(NAMESPACES, name);
}

function readGuards(client: KubeClient): Promise<HomeGuard[]> {
  const [policies, bindings] = [VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS];
  return Promise.all(
    HOME_GUARDS.map(async (name) => ({
      name,
      policy: await readable(policies, client.get(VALIDATING_ADMISSION_POLICIES, { name })),
      binding: await readable(bindings, client.get(VALIDATING_ADMISSION_POLICY_BINDINGS, { name })),
    })),
  );
}

/** No admission policy and no quota is asked about a read: what forbids one is a role. */
class UnreadableError extends Error {
  override name = "UnreadableError";
  readonly resource: Resource<KubeObject>;
  constructor(resource: Resource<KubeObject>, { message }: Error) {
    super(message);
    this.resource = resource;
  }
}

async function readable<T>(resource: Resource<KubeObject>, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    throw error instanceof Error && isKubeError(error, "Forbidden") ? new UnreadableError(resource, error) : error;
  }
}

/** By which people find all of Tidemark. It protects nothing, and is not asked for. */
const PART_OF = { "app.kubernetes.io/part-of": "tidemark" } as const;

/** Leaves a namespace that a user or another process made as it is. */
async function createMemberNamespace(client: KubeClient): Promise<void> {
  const metadata = {
    name: MEMBER_NAMESPACE,
    labels: { ...PART_OF, ...HOME_LABELS },
    annotations: { ...KEPT_BY_GITOPS },
  };
  try {
    await client.create("member/create-namespace", NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata });
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
  }
}

const NAME = "tidemark-members";

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
        return { againAfterMs: AGAIN_AFTER_MS.elsewhere };
      },
      log,
      backOff: BACK_OFFS.guard,
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
