// Where the policy-engine's replicas are, as the EndpointSlices of their Service say: known at once when one comes or goes, and
// without a DNS server. What was known last stays while the API server cannot be asked.

import { ENDPOINT_SLICES, type EndpointSlice } from "../../contracts/kubernetes/resources.ts";
import { createReflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { formatAddress } from "../../platform/process/flags.ts";
import type { Logger } from "../../platform/process/log.ts";

export interface ServiceReference {
  readonly namespace: string;
  readonly name: string;
}

/** Of the Service, and so of its EndpointSlices. */
const SAMPLES_PORT = "samples";

/** Calls `changed` with all addresses ("host:port"), once after the first list and then at each change. */
export function watchEngineEndpoints(
  client: Pick<KubeClient, "list" | "watch">,
  service: ServiceReference,
  changed: (addresses: readonly string[]) => void,
  log: Logger,
): { stop(): Promise<void> } {
  const { namespace, name } = service;
  const slices = createReflector({
    client,
    resource: ENDPOINT_SLICES,
    log,
    select: { namespace, labelSelector: `kubernetes.io/service-name=${name}` },
  });
  let synced = false;
  const tell = (): void => {
    if (synced) changed(engineAddresses(slices.store.list()));
  };
  slices.subscribe({ added: tell, updated: tell, deleted: tell });
  void slices.synced.then(() => {
    synced = true;
    tell();
  });
  slices.start();
  return { stop: () => slices.stop() };
}

/** One that is not ready is among them: it may lead in a moment, and must have samples then. One that ends is not. */
export function engineAddresses(slices: readonly EndpointSlice[]): string[] {
  const addresses = slices.flatMap(({ ports, endpoints }) => {
    const port = ports?.find(({ name }) => name === SAMPLES_PORT)?.port;
    if (port === undefined) return [];
    const open = (endpoints ?? []).filter(({ conditions }) => conditions?.terminating !== true);
    return open.flatMap(({ addresses: hosts }) => hosts.slice(0, 1).map((host) => formatAddress({ host, port })));
  });
  return [...new Set(addresses)].sort();
}
