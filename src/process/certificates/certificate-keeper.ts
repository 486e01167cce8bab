// Keeps a CA and its leaves in Secrets, for whoever leads: at each change of one of them and every few minutes. It never ends
// the process: what cannot be done now is tried again, and what serves goes on with the certificates that it has.

import { createReflector } from "../../kube/cache/reflector.ts";
import { reflectorSet } from "../../kube/cache/reflector-set.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { type BackOff, backOffMs } from "../../kube/queue/back-off.ts";
import { SECRETS, type Secret } from "../../kube/resources.ts";
import { type CertificateRoundOptions, runCertificateRound } from "./certificate-round.ts";

export interface CertificateKeeperOptions extends CertificateRoundOptions {
  readonly client: Pick<KubeClient, "get" | "list" | "watch" | "update">;
  /** Asked before each round. */
  readonly isLeader: () => boolean;
  /** Told each content that one of the Secrets takes on, leader or not. */
  readonly changed: (secret: Secret) => void;
}

export interface CertificateKeeper {
  /** Resolves when each Secret was looked for, and `changed` has heard of those that there are; pending for ever when stopped before. */
  readonly synced: Promise<void>;
  start(): void;
  /** Looks now: leadership was won. */
  wake(): void;
  stop(): Promise<void>;
}

const ROUND_INTERVAL_MS = 600_000;
const BACK_OFF: BackOff = { baseMs: 200, capMs: 60_000 };

export function createCertificateKeeper(options: CertificateKeeperOptions): CertificateKeeper {
  const { client, namespace, authoritySecretName, leaves, isLeader, changed, log } = options;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let askedMeanwhile = false;
  let failures = 0;
  let stopped = false;

  const round = async (): Promise<void> => {
    try {
      if (isLeader()) await runCertificateRound(options);
      failures = 0;
    } catch (err) {
      failures += 1;
      log[isKubeError(err, "Conflict") ? "debug" : "warn"](
        { err, failures },
        "the certificates could not be looked after; trying again",
      );
    }
  };
  const wake = (): void => {
    askedMeanwhile = running !== undefined;
    if (stopped || running !== undefined) return;
    clearTimeout(timer);
    running = round().finally(() => {
      running = undefined;
      if (stopped) return;
      if (askedMeanwhile) return wake();
      const waitMs = failures === 0 ? ROUND_INTERVAL_MS : backOffMs(failures, BACK_OFF, Math.random());
      timer = setTimeout(wake, waitMs).unref();
    });
  };
  // Each by its name: what we may read is these Secrets, not the namespace's others.
  const reflectors = [authoritySecretName, ...leaves.map(({ secretName }) => secretName)].map((name) =>
    createReflector({ client, resource: SECRETS, log, select: { namespace, fieldSelector: `metadata.name=${name}` } }),
  );
  const taken = (secret: Secret): void => {
    changed(secret);
    wake();
  };
  for (const reflector of reflectors) reflector.subscribe({ added: taken, updated: taken, deleted: () => wake() });
  const { synced, start, stop } = reflectorSet(reflectors);
  return {
    synced,
    start: () => {
      start();
      wake();
    },
    wake,
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await stop();
      await running;
    },
  };
}
