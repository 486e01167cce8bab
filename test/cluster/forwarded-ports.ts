// The way from this machine into the cluster's network: free ports on loopback for the API server, and for the health of the
// components beside it. Nothing else of the cluster listens outside its namespace.
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { fileURLToPath } from "node:url";
import { API_SERVER_PORT, CONTROL_PLANE_ADDRESS } from "./addresses.ts";
import { FORWARDED_PORTS, type ForwardedPort } from "./cluster-state.ts";
import { enterNetwork } from "./network.ts";
import type { ClusterPlaces } from "./places.ts";
import { startRecorded } from "./recorded-process.ts";

export const FORWARDER = "forwarder";
const FORWARDER_PATH = fileURLToPath(new URL("forwarder.mjs", import.meta.url));

const TARGETS: Readonly<Record<ForwardedPort, { readonly host: string; readonly port: number }>> = {
  "kube-apiserver": { host: CONTROL_PLANE_ADDRESS, port: API_SERVER_PORT },
  etcd: { host: "127.0.0.1", port: 2381 }, // health and metrics, not the data
  "kube-controller-manager": { host: "127.0.0.1", port: 10257 },
  "kube-scheduler": { host: "127.0.0.1", port: 10259 },
};

/** The ports that were free. */
export async function startForwarder(places: ClusterPlaces): Promise<Record<ForwardedPort, number>> {
  const [command, ...enter] = enterNetwork(places);
  const args = [...enter, process.execPath, FORWARDER_PATH];
  const child = await startRecorded(places, { name: FORWARDER, command, args, ipc: true });
  if (child === undefined) throw new Error("a forwarder runs already");
  const ports: Partial<Record<ForwardedPort, number>> = {};
  for (const name of FORWARDED_PORTS) {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    ports[name] = (server.address() as AddressInfo).port;
    await hand(server, TARGETS[name], child);
  }
  child.disconnect();
  return ports as Record<ForwardedPort, number>;
}

async function hand(
  server: Server,
  target: object,
  child: NonNullable<Awaited<ReturnType<typeof startRecorded>>>,
): Promise<void> {
  const taken = Promise.race([
    once(child, "message"),
    once(child, "exit").then(() => Promise.reject(new Error("the forwarder ended before it listened"))),
  ]);
  child.send(target, server);
  await taken;
  server.close();
  await once(server, "close");
}
