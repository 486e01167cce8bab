// Secrets as the manifests have them: there, with nothing in them.

import { SECRETS } from "../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";

export async function makeEmptySecrets(
  client: Pick<KubeClient, "create">,
  namespace: string,
  names: Iterable<string>,
): Promise<void> {
  for (const name of names)
    await client.create("test/secret", SECRETS, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace, name },
      type: "Opaque",
    });
}
