// The Secrets that a member's driver wants to be called with: read at each call, kept nowhere, logged nowhere. By default the
// agent may read none: who uses such a driver allows it by a Role in the Secret's namespace (docs/reference/installation.md).
import type { KubeClient } from "../../kube/client/client.ts";
import { SECRETS } from "../../kube/resources.ts";
import { StorageError } from "../storage/storage.ts";
import type { SecretReference } from "./span-member.ts";

export interface MemberSecrets {
  /** No reference: none are wanted. Throws StorageError MemberDriverFailed when it cannot be read. */
  read(reference: SecretReference | undefined): Promise<Record<string, string>>;
}

export function createMemberSecrets(client: Pick<KubeClient, "get">): MemberSecrets {
  return {
    read: async (reference) => {
      if (reference === undefined) return {};
      const { namespace, name } = reference;
      const secret = await client.get(SECRETS, { namespace, name }).catch((error: unknown) => {
        throw unreadable(reference, error instanceof Error ? error.message : String(error), error);
      });
      if (secret === undefined) throw unreadable(reference, "there is none");
      return Object.fromEntries(
        Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64").toString("utf8")]),
      );
    },
  };
}

function unreadable({ namespace, name }: SecretReference, problem: string, cause?: unknown): StorageError {
  return new StorageError(
    "MemberDriverFailed",
    `the Secret ${namespace}/${name}, which the driver of a member wants, cannot be read: ${problem}; if it is forbidden, ` +
      `allow the agent's service account to get it, by a Role and a RoleBinding in ${namespace}`,
    cause,
  );
}
