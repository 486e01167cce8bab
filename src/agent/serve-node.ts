// What others call on this node: kubelet the CSI services, after their registration; Prometheus and kubelet's probes HTTP.
// Only wiring.
import { LOCAL_DRIVER } from "../api/names.ts";
import { type GrpcService, serveOnSocket } from "../process/grpc.ts";
import type { Logger } from "../process/log.ts";
import { startMetricsServer } from "../process/metrics-server.ts";
import type { Stoppable } from "../process/shutdown.ts";
import type { AgentConfig } from "./config.ts";
import { type KubeletRegistration, serveKubeletRegistration } from "./kubelet-registration.ts";
import { registerKubeletGauge } from "./metrics.ts";
import type { NodeVolumes } from "./node-volumes.ts";

/** In the order of their start: kubelet calls a driver at once when it finds its registration. */
export async function serveNode(
  config: AgentConfig,
  volumes: NodeVolumes,
  services: readonly GrpcService[],
  log: Logger,
): Promise<Stoppable[]> {
  const { csiSocket, registrationDirectory: directory } = config;
  const { registry } = volumes.metrics;
  const csi = await serveOnSocket(csiSocket, services);
  const registration =
    directory === undefined
      ? undefined
      : await serveKubeletRegistration({ directory, driverName: LOCAL_DRIVER, csiSocket, log });
  if (registration !== undefined) registerKubeletGauge(registry, registration);
  const http = await startMetricsServer({
    host: config.httpHost,
    port: config.httpPort,
    registry,
    unhealthy: volumes.sampler.unhealthy,
    notReady: () => notReady(volumes, registration),
  });
  log.info({ httpPort: http.port, csiSocket }, "serving");
  return [
    { name: "HTTP server", stop: () => http.close() },
    { name: "CSI services", stop: () => csi.close() },
    ...(registration === undefined ? [] : [{ name: "registration with kubelet", stop: () => registration.close() }]),
  ];
}

/** Without a registration this node has no kubelet that would have to know the driver. */
function notReady(volumes: NodeVolumes, registration: KubeletRegistration | undefined): string | undefined {
  if (!volumes.layoutsKnown()) return "the API server has not been heard yet";
  return registration?.notRegistered();
}
