// The standalone process: the embedded control plane, what a cluster has before Tidemark comes, and the stand-ins for the
// CSI sidecars and kubelet. The engine, the operator and the agent are processes of their own.

import { createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { stopAll, untilSignal } from "../../src/platform/process/shutdown.ts";
import { startControlPlane } from "../control-plane/http/server.ts";
import { bootstrap } from "./bootstrap.ts";
import { readConfig } from "./config.ts";
import { connectionWith, makeCredentials, writeCredentials } from "./credentials.ts";
import { startStandIns } from "./stand-ins.ts";

/** Prints one JSON line with the server's address on stdout once everything is there. */
export async function runStandalone(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("standalone", config.logLevel);
  const access = await makeCredentials(Date.now());
  const controlPlane = await startControlPlane({ port: config.port, access, log });
  const server = controlPlane.url;
  writeCredentials(config.credentialsDirectory, server, access);
  const client = createKubeClient({ connection: connectionWith(server, access), effects: directEffects, log });
  await bootstrap(client, config);
  const standIns = await startStandIns(client, config, directEffects, log);
  process.stdout.write(`${JSON.stringify({ server })}\n`);
  await untilSignal();
  const parts = [
    { name: "control plane", stop: () => controlPlane.close() },
    { name: "API server client", stop: () => client.close() },
    ...standIns,
  ];
  await stopAll(parts, log);
}
