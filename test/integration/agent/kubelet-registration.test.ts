// Kubelet's half of the registration, played by a real gRPC client: an agent of its own process, on the simulated disk.
import { existsSync, readdirSync, statSync, watch } from "node:fs";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it, jest } from "@jest/globals";
import { NodeClient } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { type PluginInfo, RegistrationClient } from "../../../src/contracts/gen/pluginregistration/v1/registration.ts";
import { type AgentUnderTest, NODE_NAME, startAgentUnderTest, waitFor } from "./agent-under-test.ts";

jest.setTimeout(60_000);
const DRIVER = "local.tidemark.dev";
const SOCKET = `${DRIVER}-reg.sock`;
const REFUSAL = "RegisterPlugin error -- a node with the same ID";

describe("an agent on a node with a kubelet", () => {
  let agent: AgentUnderTest;
  let directory: string;
  let socketPath: string;
  const start = () => agent.startAgent({}, { storage: "simulated", "registration-directory": directory });
  const scrape = async () => (await fetch(agent.metricsUrl)).text();
  const readiness = async () => {
    const answer = await fetch(agent.metricsUrl.replace("/metrics", "/readyz"));
    return { status: answer.status, text: await answer.text() };
  };

  beforeAll(async () => {
    agent = await startAgentUnderTest();
    directory = join(agent.directory, "kubelet/plugins_registry");
    socketPath = join(directory, SOCKET);
    await start();
    await waitFor("the socket", () => existsSync(socketPath));
  });
  afterAll(() => agent.dispose());

  it("shows kubelet one socket only, which is closed to other users", () => {
    expect(readdirSync(directory)).toEqual([SOCKET]);
    expect(statSync(socketPath).mode & 0o777).toBe(0o600);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
  });

  it("names the driver, its CSI version and a socket on which the driver answers", async () => {
    const { endpoint, ...plugin } = await asKubelet(socketPath, getInfo);
    expect(plugin).toEqual({ type: "CSIPlugin", name: DRIVER, supportedVersions: ["1.0.0"] });
    expect(await nodeIdAt(endpoint)).toBe(NODE_NAME);
  });

  it("is not ready before kubelet has registered it", async () => {
    await waitFor("the API server to be heard", async () => (await readiness()).text.includes(DRIVER));
    expect((await readiness()).status).toBe(503);
    expect((await readiness()).text).toContain(`${socketPath}: kubelet has not asked for it yet`);
    expect(await scrape()).toContain(`tidemark_agent_kubelet_registered{driver="${DRIVER}"} 0`);
  });

  it("says why kubelet refused it: in the log once, as not ready, and as a metric", async () => {
    for (let time = 1; time <= 3; time += 1) await asKubelet(socketPath, notify(false, REFUSAL));
    expect(await readiness()).toEqual({ status: 503, text: expect.stringContaining(REFUSAL) });
    expect(await scrape()).toContain(`tidemark_agent_kubelet_registered{driver="${DRIVER}"} 0`);
    // What it logs comes by a pipe, which nothing above has waited for.
    await waitFor("its log", () => linesWith(agent.log(), REFUSAL).length > 0);
    expect(linesWith(agent.log(), REFUSAL)).toHaveLength(1);
  });

  it("is ready once kubelet has registered it", async () => {
    await asKubelet(socketPath, notify(true, ""));
    expect((await readiness()).status).toBe(200);
    const registered = `tidemark_agent_kubelet_registered{driver="${DRIVER}"} 1`;
    await waitFor("a page of metrics that says so", async () => (await scrape()).includes(registered));
  });

  it("leaves the socket when it is killed, and the next agent puts a new one in its place", async () => {
    await agent.killAgent();
    const left = statSync(socketPath).ino;
    const appeared = new Set<string | null>();
    const watcher = watch(directory, (_event, name) => appeared.add(name));
    await start();
    await waitFor("a new socket", () => appeared.has(SOCKET) && statSync(socketPath).ino !== left);
    watcher.close();
    expect([...appeared].filter(isForKubelet)).toEqual([SOCKET]);
    expect(readdirSync(directory)).toEqual([SOCKET]);
    expect((await asKubelet(socketPath, getInfo)).name).toBe(DRIVER);
  });

  it("takes the socket away when it is stopped, so that kubelet forgets the driver", async () => {
    expect(await agent.stopAgent()).toBe(0);
    expect(readdirSync(directory)).toEqual([]);
  });

  it("needs no kubelet where no directory is named", async () => {
    await agent.startAgent({}, { storage: "simulated" });
    await waitFor("the agent to be ready", async () => (await readiness()).status === 200);
    expect(readdirSync(directory)).toEqual([]);
    expect(await scrape()).not.toContain("tidemark_agent_kubelet_registered");
  });
});

type Call<Response> = (
  client: RegistrationClient,
  callback: (error: Error | null, response: Response) => void,
) => unknown;

const getInfo: Call<PluginInfo> = (client, callback) => client.getInfo({}, callback);
const notify =
  (pluginRegistered: boolean, error: string): Call<object> =>
  (client, callback) =>
    client.notifyRegistrationStatus({ pluginRegistered, error }, callback);

/** Kubelet dials anew for each registration; its :authority is the escaped path, which not every HTTP/2 server takes. */
async function asKubelet<Response>(socketPath: string, call: Call<Response>): Promise<Response> {
  const client = new RegistrationClient(`unix://${socketPath}`, credentials.createInsecure(), {
    "grpc.default_authority": encodeURIComponent(socketPath),
  });
  try {
    return await new Promise((resolve, reject) => {
      call(client, (error, response) => (error === null ? resolve(response) : reject(error)));
    });
  } finally {
    client.close();
  }
}

async function nodeIdAt(csiSocket: string): Promise<string> {
  const client = new NodeClient(`unix://${csiSocket}`, credentials.createInsecure());
  try {
    return await new Promise((resolve, reject) => {
      client.nodeGetInfo({}, (error, response) => (error === null ? resolve(response.nodeId) : reject(error)));
    });
  } finally {
    client.close();
  }
}

/** It takes every socket for a plugin whose name does not begin with a dot, however short it is there. */
function isForKubelet(name: string | null): boolean {
  return name?.startsWith(".") !== true;
}

function linesWith(log: string, text: string): string[] {
  return log.split("\n").filter((line) => line.includes(text));
}
