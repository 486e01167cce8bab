// What a metrics server has where its readers are asked for a token: who may read, and the certificate without which a token would be read on
// the wire. Only wiring.
import type { SecureContextOptions, Server } from "node:tls";
import type { KubeClient } from "../kube/client/client.ts";
import { makeOwnPair } from "./certificates/own-pair.ts";
import { followPairDirectory } from "./certificates/pair-directory.ts";
import { showPair } from "./certificates/shown-pair.ts";
import { systemClock } from "./clock.ts";
import type { Logger } from "./log.ts";
import { type AskAccess, createMetricsAccess } from "./metrics-access.ts";
import type { MetricsAuthentication } from "./metrics-flags.ts";

export interface SecuredMetrics {
  readonly askAccess: AskAccess;
  /** Shows it a certificate, now and when that changes. The answer ends that. */
  certify(server: Pick<Server, "setSecureContext">): Promise<() => void>;
}

/** Names what it is, not where: nothing checks it, and a certificate that is to be checked comes by --metrics-tls-directory. */
const COMMON_NAME = "metrics.tidemark.dev";
const TLS_OPTIONS: SecureContextOptions = { minVersion: "TLSv1.2" };

/** Undefined where it is not asked for. */
export function secureMetrics(
  authentication: MetricsAuthentication | undefined,
  client: Pick<KubeClient, "create">,
  log: Logger,
): SecuredMetrics | undefined {
  if (authentication === undefined) return undefined;
  const { audience, tlsDirectory } = authentication;
  return {
    askAccess: createMetricsAccess({ client, audience, clock: systemClock, log }),
    certify: async (server) => {
      // First of all, so that kubelet's probes, which check no certificate, are answered whatever is in the directory.
      showPair(server, await makeOwnPair(COMMON_NAME, systemClock.nowMs()), TLS_OPTIONS);
      if (tlsDirectory === undefined) return () => {};
      const followed = await followPairDirectory(tlsDirectory, (pair) => showPair(server, pair, TLS_OPTIONS), log);
      return followed.stop;
    },
  };
}
