// What others call on this node: kubelet the CSI services, after their registration; Prometheus and kubelet's probes HTTP.
// Only wiring.
import type { KubeClient } from "../platform/kube/client/client.ts";
import { type GrpcService, serveOnSocket } from "../platform/process/grpc.ts";
import type { Logger } from "../platform/process/log.ts";
import { startMetricsServer } from "../platform/process/metrics/metrics-server.ts";
import { secureMetrics } from "../platform/process/metrics/secured-metrics.ts";
import type { Stoppable } from "../platform/process/shutdown.ts";
import type { AgentConfig } from "./config.ts";
import { type KubeletRegistration, serveKubeletRegistration } from "./csi/kubelet-registration.ts";
import { registerKubeletGauge } from "./metrics.ts";
import type { NodeVolumes } from "./volumes/node-volumes.ts";

/** A CSI driver, with what is answered in its name. */
export interface ServedDriver {
  readonly name: string;
  readonly csiSocket: string;
  readonly services: readonly GrpcService[];
}

/** In the order of their start: kubelet calls a driver at once when it finds its registration. */
export async function serveNode(
  config: AgentConfig,
  volumes: NodeVolumes,
  drivers: readonly ServedDriver[],
  client: Pick<KubeClient, "create">,
  log: Logger,
): Promise<Stoppable[]> {
  const { registry } = volumes.metrics;
  const served: Stoppable[] = [];
  const registrations: KubeletRegistration[] = [];
  for (const driver of drivers) {
    const csi = await serveOnSocket(driver.csiSocket, driver.services);
    served.push({ name: `CSI services of ${driver.name}`, stop: () => csi.close() });
  }
  for (const { name: driverName, csiSocket } of drivers) {
    const { registrationDirectory: directory } = config;
    if (directory === undefined) continue;
    const registration = await serveKubeletRegistration({ directory, driverName, csiSocket, log });
    registrations.push(registration);
    served.push({ name: `registration of ${driverName} with kubelet`, stop: () => registration.close() });
  }
  if (registrations.length > 0) registerKubeletGauge(registry, registrations);
  const http = await startMetricsServer({
    host: config.httpHost,
    port: config.httpPort,
    registry,
    unhealthy: volumes.unhealthy,
    notReady: () => notReady(volumes, registrations),
    secured: secureMetrics(config.metricsAuthentication, client, log),
  });
  log.info({ httpPort: http.port, csiSockets: drivers.map(({ csiSocket }) => csiSocket) }, "serving");
  return [{ name: "HTTP server", stop: () => http.close() }, ...served];
}

/** Without a registration this node has no kubelet that would have to know the driver. */
function notReady(volumes: NodeVolumes, registrations: readonly KubeletRegistration[]): string | undefined {
  if (!volumes.layoutsKnown()) return "the API server has not been heard yet";
  return registrations.map((registration) => registration.notRegistered()).find((problem) => problem !== undefined);
}
