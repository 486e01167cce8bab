// An lvmd of its own for a suite inside the virtual machine, on volume groups made from its disks; and clients of all its services.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { HealthClient } from "../../../src/gen/grpc/health/v1/health.ts";
import { LvmdClient } from "../../../src/gen/tidemark/lvmd/v1/lvmd.ts";
import { LVServiceClient, VGServiceClient } from "../../../src/gen/topolvm/lvmd.ts";
import { readConfig } from "../../../src/lvmd/config.ts";
import { startLvmd } from "../../../src/lvmd/start-lvmd.ts";
import { createLogger } from "../../../src/process/log.ts";
import type { Stoppable } from "../../../src/process/shutdown.ts";

export const MIB = 2 ** 20;
export const GIB = 2 ** 30;

export interface LvmdClients {
  readonly volumes: LVServiceClient;
  readonly groups: VGServiceClient;
  readonly lvmd: LvmdClient;
  readonly health: HealthClient;
  close(): void;
}

export function connect(socket: string): LvmdClients {
  const of = <T extends Client>(Kind: new (address: string, credentials: ReturnType<typeof insecure>) => T): T =>
    new Kind(`unix://${socket}`, insecure());
  const clients = {
    volumes: of(LVServiceClient),
    groups: of(VGServiceClient),
    lvmd: of(LvmdClient),
    health: of(HealthClient),
  };
  return {
    ...clients,
    close: () => {
      for (const client of Object.values(clients)) client.close();
    },
  };
}

const insecure = (): ReturnType<typeof credentials.createInsecure> => credentials.createInsecure();

/** One call; a refusal is thrown as grpc-js' ServiceError. */
export function call<Request, Response>(
  client: Client,
  method: (request: Request, callback: (error: ServiceError | null, response: Response) => void) => unknown,
  request: Request,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    method.call(client, request, (error, response) => (error === null ? resolve(response) : reject(error)));
  });
}

export interface LvmdUnderTest extends LvmdClients {
  readonly directory: string;
  readonly socket: string;
  readonly settingsFile: string;
  stop(): Promise<void>;
}

export async function startLvmdUnderTest(settings: string, flags: readonly string[] = []): Promise<LvmdUnderTest> {
  const directory = mkdtempSync(join(tmpdir(), "lvmd-"));
  const socket = join(directory, "s", "lvmd.sock");
  const settingsFile = join(directory, "lvmd.yaml");
  writeFileSync(settingsFile, `socket-name: ${socket}\n${settings}`);
  const state = ["--state-directory", join(directory, "state")];
  const args = ["--config", settingsFile, ...state, "--http-host", "127.0.0.1", "--http-port", "0", ...flags];
  const parts: Stoppable[] = await startLvmd(readConfig(args, {}), createLogger("lvmd", "warn"));
  const clients = connect(socket);
  return {
    ...clients,
    directory,
    socket,
    settingsFile,
    stop: async () => {
      clients.close();
      for (const { stop } of [...parts].reverse()) await stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A command of the guest; its output. */
export function sh(script: string): string {
  return execFileSync("/bin/bash", ["-ec", script], {
    encoding: "utf8",
    env: { ...process.env, LVM_SUPPRESS_FD_WARNINGS: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** LVM as it is installed, without the host's namespaces around it. */
export const PLAIN_PREFIX = "lvm-command-prefix: [/sbin/lvm]\n";
