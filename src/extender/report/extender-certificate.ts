// The extender's own certificate, as its Secret has it: the operator's leader makes and renews it, and a change holds for new connections.
import { EXTENDER_SECRETS } from "../../api/placement.ts";
import { createReflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { SECRETS, type Secret } from "../../kube/resources.ts";
import type { StoredPair } from "../../process/certificates/decide-certificates.ts";
import { showSecret } from "../../process/certificates/shown-pair.ts";
import type { Logger } from "../../process/log.ts";

export interface ExtenderCertificate {
  /** False: no handshake succeeds yet. */
  isShown(): boolean;
  start(): void;
  stop(): Promise<void>;
}

export function createExtenderCertificate(
  client: KubeClient,
  namespace: string,
  replace: (pair: StoredPair) => void,
  log: Logger,
): ExtenderCertificate {
  let isShown = false;
  const select = { namespace, fieldSelector: `metadata.name=${EXTENDER_SECRETS.extender}` };
  const reflector = createReflector({ client, resource: SECRETS, log, select });
  const show = (secret: Secret): void => {
    isShown = showSecret(secret, replace, log) || isShown;
  };
  reflector.subscribe({ added: show, updated: show });
  return { isShown: () => isShown, start: reflector.start, stop: reflector.stop };
}
