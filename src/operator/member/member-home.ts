// The namespace of members, as it is when one is to be placed there. It is looked at anew each time: that is once for each claim that is
// made, and what waits for it asks again by itself.
import { MEMBER_NAMESPACE } from "../../api/names.ts";
import { resourceLabel } from "../../kube/client/api-path.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { KubeObject, Resource } from "../../kube/object.ts";
import {
  NAMESPACES,
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { HOME_GUARDS, HOME_LABELS, type HomeGuard, homeProblem, missingRight } from "./decide-home.ts";
import { KEPT_BY_GITOPS } from "./member-claim.ts";

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
  /** The operator's, as the API server knows it; undefined outside a pod. */
  readonly userName?: string | undefined;
}

export function createMemberHome(client: KubeClient, rules: HomeRules, log: Logger): MemberHome {
  let told: string | undefined;
  return {
    problem: async () => {
      const problem = await lookAt(client, rules);
      if (problem !== told) log.warn({ problem: problem ?? "none any more" }, "where members are placed");
      told = problem;
      return problem;
    },
  };
}

async function lookAt(client: KubeClient, { guardsRequired, userName }: HomeRules): Promise<string | undefined> {
  try {
    const [namespace, guards] = await Promise.all([readNamespace(client), guardsRequired ? readGuards(client) : []]);
    return homeProblem(namespace, guards);
  } catch (error) {
    if (error instanceof UnreadableError) return missingRight(resourceLabel(error.resource), userName, error.message);
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

/** Somebody else's stays as it is. */
export async function createMemberNamespace(client: KubeClient): Promise<void> {
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
