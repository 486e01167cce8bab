// The stand-ins before the operator and the agent listen: as sidecars that wait for their driver.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import {
  Server,
  ServerCredentials,
  type sendUnaryData,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { applyClaim } from "../../../demo/show/script/demo-claim.ts";
import { startStandIns } from "../../../demo/stand-ins/stand-ins.ts";
import { ControllerService } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { EVENTS } from "../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { type ApiServer, startApiServer } from "../operator/api-server.ts";

const NODE_NAME = "node-1";
/** A call to a socket that is not there fails at once, and its Event is written in a fraction of this. */
const SILENT_MS = 1500;

describe("stand-ins whose sockets are not there yet", () => {
  let directory: string;
  let api: ApiServer;
  let operator: Server;
  let parts: Awaited<ReturnType<typeof startStandIns>>;

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "late-sockets-"));
    api = await startApiServer(NODE_NAME);
    operator = new Server();
    const settings = {
      nodeName: NODE_NAME,
      operatorSocket: join(directory, "operator.sock"),
      agentSocket: join(directory, "agent.sock"),
      kubeletDirectory: join(directory, "kubelet"),
    };
    parts = await startStandIns(api.client, settings, directEffects, createLogger("test", "silent"));
  });
  afterEach(async () => {
    for (const part of [...parts].reverse()) await part.stop();
    operator.forceShutdown();
    await api.stop();
    rmSync(directory, { recursive: true });
  });

  async function listen(): Promise<void> {
    const refuse = (_call: unknown, answer: sendUnaryData<unknown>): void =>
      answer({ code: status.RESOURCE_EXHAUSTED, details: "no room" });
    const service: UntypedServiceImplementation = { createVolume: refuse };
    operator.addService(ControllerService, service);
    await new Promise<void>((resolve, reject) => {
      operator.bindAsync(`unix://${join(directory, "operator.sock")}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      );
    });
  }

  it("call nothing and complain of nothing, and begin as soon as they are", async () => {
    const told = async (): Promise<string[]> =>
      (await api.client.list(EVENTS)).items.map(({ reason, message }) => `${reason}: ${message}`);
    await applyClaim(api.client, GIB);
    await pause(SILENT_MS);
    expect(await told()).toEqual([]);
    await listen();
    await waitFor("the operator's answer to be told", async () => ((await told()).length > 0 ? true : undefined));
    expect(await told()).toEqual([expect.stringMatching(/^ProvisioningFailed: .*no room$/)]);
  });
});
