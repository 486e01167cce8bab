// The ca-publisher as a process. It alone may write the webhook's configuration, which is as good as the cluster, so it does nothing else:
// it opens no port, and of what others write it reads one Secret. One of it is for one webhook.
import { createKubeClient } from "../platform/kube/client/http-client.ts";
import { connectionOf } from "../platform/kube/client/kube-config.ts";
import { effectsOf } from "../platform/process/effects/effects.ts";
import { createLogger } from "../platform/process/log.ts";
import { stopAll, untilSignal } from "../platform/process/shutdown.ts";
import { readConfig } from "./config.ts";
import { createCaPublisher } from "./publisher.ts";

export async function runCaPublisher(args: readonly string[]): Promise<void> {
  const config = readConfig(args);
  const log = createLogger("ca-publisher", config.logLevel);
  const connection = await connectionOf(config.connection);
  const client = createKubeClient({ connection, effects: effectsOf(config), log, userAgent: "tidemark-ca-publisher" });
  const publisher = createCaPublisher(client, config.namespace, config.webhook, log);
  publisher.start();
  await untilSignal();
  await stopAll(
    [
      { name: "API server client", stop: () => client.close() },
      { name: "publisher", stop: publisher.stop },
    ],
    log,
  );
}
