// Secrets as the manifests have them: there, with nothing in them.
import type { KubeClient } from "../../src/kube/client/client.ts";
import { SECRETS } from "../../src/kube/resources.ts";

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
