// An API server with our kinds, and a client: for what one function of the operator reads and writes, without an operator.

import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { startApiUnderTest } from "../../harness/api-under-test.ts";

export interface ApiServer {
  readonly client: KubeClient;
  stop(): Promise<void>;
}

export async function startApiServer(nodeName: string): Promise<ApiServer> {
  const log = createLogger("test", "silent");
  const controlPlane = await startApiUnderTest({ port: 0, log });
  const client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  await bootstrap(client, { crdDirectory: "kustomize/foundation/crds", nodeName, initialSize: "1Gi", fsType: "btrfs" });
  return {
    client,
    stop: async () => {
      await client.close();
      await controlPlane.close();
    },
  };
}
