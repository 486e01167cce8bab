import { get } from "node:http";
import { constants, networkInterfaces } from "node:os";
import { afterEach, describe, expect, it } from "@jest/globals";
import { Counter, Registry } from "prom-client";
import { type MetricsServer, startMetricsServer } from "../../../../../src/platform/process/metrics/metrics-server.ts";
import { connectionsOf, listeningServer, openSilent } from "../../../../harness/silent-connections.ts";
import { waitFor } from "../../../../harness/wait-for.ts";

const started: MetricsServer[] = [];

afterEach(async () => {
  for (const server of started.splice(0)) await server.close();
});

async function start(host: string): Promise<number> {
  const server = await startMetricsServer({
    host,
    port: 0,
    registry: new Registry(),
    unhealthy: () => undefined,
    notReady: () => "the first list",
    page: (path) => (path === "/explain/shop/data" ? { status: 200, body: { claim: "data" } } : undefined),
  });
  started.push(server);
  return server.port;
}

/** As from this machine, unless `host` is another address of it; `headers` are what tells who sends it. */
function ask(
  port: number,
  path: string,
  headers: Record<string, string>,
  host = "127.0.0.1",
): Promise<{ status?: number; body: string }> {
  return new Promise((resolve, reject) => {
    get({ host, port, path, headers, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        body += part;
      });
      response.on("end", () => resolve({ ...(response.statusCode && { status: response.statusCode }), body }));
    }).once("error", reject);
  });
}

/** Who asks there asks from there, too: as another pod does. */
function addressOnNetwork(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  const found = all.find(({ internal, family }) => !internal && family === "IPv4");
  if (found === undefined) throw new Error("this machine has no IPv4 address but loopback's; the test needs one");
  return found.address;
}

const REBOUND = { host: "rebound.example.com:9464" };
const POD_ADDRESS = { host: "10.0.0.7:9464" };

describe("bound to loopback", () => {
  it.each([
    ["a name that was pointed here", REBOUND],
    ["a web page's origin", { host: "127.0.0.1", origin: "https://example.com" }],
  ])("it answers nothing to a request with %s", async (_case, headers) => {
    const port = await start("127.0.0.1");
    for (const path of ["/metrics", "/healthz", "/readyz", "/explain/shop/data", "/none"])
      expect(await ask(port, path, headers)).toMatchObject({
        status: 403,
        body: expect.stringContaining("is refused"),
      });
  });

  it.each(["127.0.0.1", "127.0.0.1:9464", "localhost:9464", "[::1]:9464"])(
    "it answers a program that asks %s",
    async (host) => {
      const port = await start("127.0.0.1");
      expect(await ask(port, "/metrics", { host })).toMatchObject({ status: 200 });
      expect(await ask(port, "/readyz", { host })).toEqual({ status: 503, body: "the first list\n" });
      expect(await ask(port, "/explain/shop/data", { host })).toEqual({ status: 200, body: '{"claim":"data"}\n' });
    },
  );
});

describe("bound to every address, as in a cluster", () => {
  it.each([POD_ADDRESS, REBOUND])("it is scraped and probed under any name: %j", async (headers) => {
    const port = await start("0.0.0.0");
    expect(await ask(port, "/metrics", headers)).toMatchObject({ status: 200 });
    expect(await ask(port, "/healthz", headers)).toEqual({ status: 200, body: "ok\n" });
  });

  it("its page, which a port-forward reaches, is not for a web page behind one", async () => {
    const port = await start("0.0.0.0");
    expect(await ask(port, "/explain/shop/data", REBOUND)).toMatchObject({ status: 403 });
    expect(await ask(port, "/explain/shop/data", { host: "localhost:9464" })).toMatchObject({ status: 200 });
  });

  it.each(["0.0.0.0", "::"])("its page is not for another pod, whatever it says of itself: %s", async (bound) => {
    const port = await start(bound);
    const address = addressOnNetwork();
    for (const host of ["localhost:9464", `${address}:${port}`])
      expect(await ask(port, "/explain/shop/data", { host }, address)).toMatchObject({ status: 404 });
    expect(await ask(port, "/metrics", {}, address)).toMatchObject({ status: 200 });
    expect(await ask(port, "/explain/shop/data", { host: "localhost:9464" })).toMatchObject({ status: 200 });
  });

  it("has few connections at once of those who are silent, and answers others", async () => {
    const { server, started: port } = await listeningServer(() => start("0.0.0.0"));
    const silent = await openSilent(port, 300);
    try {
      expect(await ask(port, "/metrics", POD_ADDRESS)).toMatchObject({ status: 200 });
      expect(await connectionsOf(server)).toBeLessThanOrEqual(128);
      await waitFor("the oldest to be closed", async () => silent[0]?.closed || undefined);
      expect(silent.at(-1)?.closed).toBe(false);
    } finally {
      for (const socket of silent) socket.destroy();
    }
  });
});

describe("many who ask for metrics at once", () => {
  it("share one rendering, and see what has changed a second later", async () => {
    const registry = new Registry();
    let renderings = 0;
    const asked = new Counter({
      name: "renderings",
      help: "How often it was rendered.",
      registers: [registry],
      collect: () => {
        renderings += 1;
        asked.inc();
      },
    });
    const server = await startMetricsServer({
      host: "127.0.0.1",
      port: 0,
      registry,
      unhealthy: () => undefined,
      notReady: () => undefined,
    });
    started.push(server);
    const host = { host: "127.0.0.1" };
    const pages = await Promise.all(Array.from({ length: 50 }, () => ask(server.port, "/metrics", host)));
    // Two, where a busy machine took longer than a second to hear them all.
    expect(renderings).toBeLessThan(5);
    expect(new Set(pages.map(({ status }) => status))).toEqual(new Set([200]));
    await waitFor("a new rendering", async () => {
      const before = renderings;
      await ask(server.port, "/metrics", host);
      return renderings > before ? true : undefined;
    });
  });
});

describe("a process that has no file descriptor left for one more connection", () => {
  it("goes on, and answers the next one", async () => {
    const { server, started: port } = await listeningServer(() => start("127.0.0.1"));
    // As Node.js hears of EMFILE from its loop.
    const { _handle: handle } = server as typeof server & { _handle: { onconnection(status: number): void } };
    handle.onconnection(-constants.errno.EMFILE);
    expect(await ask(port, "/healthz", { host: "127.0.0.1" })).toMatchObject({ status: 200 });
  });
});
