import { EventEmitter, once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls, type Server as TlsServer } from "node:tls";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { pino } from "pino";
import { Registry } from "prom-client";
import { runExplain } from "../../../../../src/cli/explain.ts";
import { makeOwnPair } from "../../../../../src/platform/process/certificates/issue-certificate.ts";
import { LOOK_INTERVAL_MS } from "../../../../../src/platform/process/certificates/shown-pair.ts";
import { type MetricsServer, startMetricsServer } from "../../../../../src/platform/process/metrics/metrics-server.ts";
import {
  type MetricsAuthentication,
  readMetricsAuthentication,
  secureMetrics,
} from "../../../../../src/platform/process/metrics/secured-metrics.ts";
import { createAccessReviewer } from "../../../../fakes/access-reviewer.ts";
import { type LogLine, WARN_LEVEL } from "../../../../fakes/recording-log.ts";
import { askHttps } from "../../../../harness/https-page.ts";
import { connectionsOf, listeningServer } from "../../../../harness/silent-connections.ts";
import { waitFor } from "../../../../harness/wait-for.ts";

const READER = "prometheus/1";
const log = pino({ level: "silent" });
let directory: string;
let servers: MetricsServer[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tidemark-metrics-tls-"));
  servers = [];
});
afterEach(async () => {
  for (const server of servers) await server.close();
  rmSync(directory, { recursive: true });
});

/** The port. */
async function start(authentication: MetricsAuthentication, said = log): Promise<number> {
  const api = createAccessReviewer();
  api.allow("prometheus");
  const server = await startMetricsServer({
    host: "127.0.0.1",
    port: 0,
    registry: new Registry(),
    unhealthy: () => undefined,
    notReady: () => "the first list",
    page: (path) => (path === "/explain/shop/data" ? { status: 200, body: { claim: "data" } } : undefined),
    secured: secureMetrics(authentication, api, said),
  });
  servers.push(server);
  return server.port;
}

/** A CA and a certificate of its, as cert-manager leaves them. Answers with the CA. */
async function writePair(name: string): Promise<string> {
  const { certificatePem, keyPem, bundlePem } = await makeOwnPair(name, Date.now());
  writeFileSync(join(directory, "tls.crt"), certificatePem);
  writeFileSync(join(directory, "tls.key"), keyPem);
  return bundlePem;
}

/** All but those of looking again and again. */
const REAL_TIMERS = [
  ...(["Date", "hrtime", "nextTick", "performance", "queueMicrotask", "setImmediate", "clearImmediate"] as const),
  ...(["setTimeout", "clearTimeout"] as const),
];

/** `next` resolves with the line that is written next. */
function awaitedLog() {
  const heard = new EventEmitter();
  const lines: LogLine[] = [];
  const write = (text: string): void => {
    lines.push(JSON.parse(text) as LogLine);
    heard.emit("line");
  };
  const next = async (): Promise<LogLine | undefined> => {
    await once(heard, "line");
    return lines.at(-1);
  };
  return { recording: pino({ level: "debug" }, { write }), lines, next };
}

/** The next look at the directory has ended, and has said this. */
function look(next: () => Promise<LogLine | undefined>): Promise<LogLine | undefined> {
  const said = next();
  jest.advanceTimersByTime(LOOK_INTERVAL_MS);
  return said;
}

const OWN: MetricsAuthentication = { audience: undefined, tlsDirectory: undefined };

describe("metrics that are read by token", () => {
  it("go over HTTPS to who shows one that may, and to no one else", async () => {
    const port = await start(OWN);
    expect(await askHttps({ port, path: "/metrics", token: READER })).toMatchObject({ status: 200 });
    expect(await askHttps({ port, path: "/metrics" })).toMatchObject({ status: 401, challenge: "Bearer" });
    expect(await askHttps({ port, path: "/metrics", token: "bad/1" })).toMatchObject({ status: 401 });
    expect(await askHttps({ port, path: "/metrics", token: "tenant/1" })).toMatchObject({ status: 403 });
    const inTheClear = new Promise((resolve, reject) => {
      get({ host: "127.0.0.1", port, path: "/metrics" }, resolve).once("error", reject);
    });
    await expect(inTheClear).rejects.toThrow();
  });

  it("leave the probes open, and the page to this machine, where `tidemark explain` asks for it", async () => {
    const port = await start(OWN);
    expect(await askHttps({ port, path: "/healthz" })).toMatchObject({ status: 200, body: "ok\n" });
    expect(await askHttps({ port, path: "/readyz" })).toMatchObject({ status: 503, body: "the first list\n" });
    const written: string[] = [];
    const stdout = jest.spyOn(process.stdout, "write").mockImplementation((text) => written.push(String(text)) > 0);
    try {
      await runExplain(["data", "--namespace=shop", `--engine=https://127.0.0.1:${port}`, "--output=json"]);
    } finally {
      stdout.mockRestore();
    }
    expect(JSON.parse(written.join(""))).toEqual({ claim: "data" });
  });

  it("are not kept from their reader by handshakes that are never finished", async () => {
    const port = await start(OWN);
    const closed: number[] = [];
    // The head of a record that does not come.
    const half = Array.from({ length: 40 }, (_, at): Socket => {
      const socket = connect(port, "127.0.0.1", () => socket.write(Buffer.from([22, 3, 1, 2, 0])));
      return socket.on("error", () => {}).on("close", () => closed.push(at));
    });
    await waitFor(
      "all to be connected",
      async () => half.every(({ readyState }) => readyState === "open") || undefined,
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await askHttps({ port, path: "/metrics", token: READER })).toMatchObject({ status: 200 });
    // Fewer are begun at once than came: some were given up for those that came later.
    await waitFor("one to be given up", async () => closed.length > 0 || undefined);
    for (const socket of half) socket.destroy();
  });

  it("are for few connections at once, where others are silent after their handshakes", async () => {
    const { server, started: port } = await listeningServer(() => start(OWN));
    const silent: Socket[] = [];
    for (let opened = 0; opened < 200; opened += 1) {
      const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false }).on("error", () => {});
      silent.push(socket);
      await once(socket, "secureConnect");
    }
    expect(await askHttps({ port, path: "/metrics", token: READER })).toMatchObject({ status: 200 });
    expect(await connectionsOf(server)).toBeLessThanOrEqual(128);
    for (const socket of silent) socket.destroy();
  });

  it("hold no connection for good whose peer says nothing more after its handshake", async () => {
    const api = createAccessReviewer();
    const secured = secureMetrics(OWN, api, log);
    if (secured === undefined) throw new Error("it is asked for");
    let secure: TlsServer | undefined;
    const server = await startMetricsServer({
      ...{ host: "127.0.0.1", port: 0, registry: new Registry() },
      ...{ unhealthy: () => undefined, notReady: () => undefined },
      secured: {
        ...secured,
        certify: (shown) => {
          secure = shown as TlsServer;
          return secured.certify(shown);
        },
      },
    });
    servers.push(server);
    const accepted = new Promise<Socket>((resolve) => secure?.once("secureConnection", resolve));
    const silent = connectTls({ host: "127.0.0.1", port: server.port, rejectUnauthorized: false });
    silent.on("error", () => {}).write("GET /metrics HTTP/1.1\r\n");
    const { timeout } = await accepted;
    silent.destroy();
    expect(timeout).toBeGreaterThan(0);
  });
});

describe("the certificate of metrics that are read by token", () => {
  it("can be checked where it is of a directory", async () => {
    const ca = await writePair("metrics.example.com");
    const port = await start({ audience: undefined, tlsDirectory: directory });
    const trust = { ca, servername: "metrics.example.com" };
    expect(await askHttps({ port, path: "/metrics", token: READER, trust })).toMatchObject({ status: 200 });
    const elsewhere = askHttps({ port, path: "/metrics", trust: { ca, servername: "other.example.com" } });
    await expect(elsewhere).rejects.toThrow(/altnames/);
  });

  it("is the process' own while the directory has none, so that probes are answered", async () => {
    const port = await start({ audience: undefined, tlsDirectory: join(directory, "absent") });
    expect(await askHttps({ port, path: "/healthz" })).toMatchObject({ status: 200 });
  });

  describe("while its directory changes", () => {
    // Each look is one turn of this clock, and awaited by the word that it says.
    beforeEach(() => {
      jest.useFakeTimers({ doNotFake: [...REAL_TIMERS] });
    });
    afterEach(() => {
      jest.useRealTimers();
    });

    it("is asked for by a warning at each look as long as the files are missing, and shown once they are there", async () => {
      const { recording, next } = awaitedLog();
      const first = next();
      const port = await start({ audience: undefined, tlsDirectory: directory }, recording);
      const missing = { level: WARN_LEVEL, directory, code: "ENOENT" };
      expect(await first).toMatchObject(missing);
      expect(await look(next)).toMatchObject(missing);
      expect(await look(next)).toMatchObject(missing);
      const ca = await writePair("metrics.example.com");
      expect(await look(next)).toMatchObject({ msg: expect.stringContaining("new connections get the certificate") });
      const trust = { ca, servername: "metrics.example.com" };
      expect(await askHttps({ port, path: "/metrics", token: READER, trust })).toMatchObject({ status: 200 });
    });

    it("is replaced; files that cannot be used leave it, and their text stays out of the log", async () => {
      const { recording, lines, next } = awaitedLog();
      const ca = await writePair("one.example.com");
      const port = await start({ audience: undefined, tlsDirectory: directory }, recording);
      writeFileSync(join(directory, "tls.crt"), "SECRET");
      expect(await look(next)).toMatchObject({ level: WARN_LEVEL, msg: expect.stringContaining("no usable") });
      const one = { ca, servername: "one.example.com" };
      expect(await askHttps({ port, path: "/metrics", token: READER, trust: one })).toMatchObject({ status: 200 });
      const two = { ca: await writePair("two.example.com"), servername: "two.example.com" };
      await look(next);
      expect(await askHttps({ port, path: "/metrics", token: READER, trust: two })).toMatchObject({ status: 200 });
      expect(JSON.stringify(lines)).not.toContain("SECRET");
    });
  });
});

describe("the flags of metrics", () => {
  it("ask for nothing unless they are given", () => {
    expect(readMetricsAuthentication({ "metrics-authentication": false })).toBeUndefined();
    expect(readMetricsAuthentication({ "metrics-authentication": true })).toEqual(OWN);
  });

  it.each([
    [{ "metrics-authentication": false, "metrics-audience": "a" }, /of no use without/],
    [{ "metrics-authentication": false, "metrics-tls-directory": "/a" }, /of no use without/],
    [{ "metrics-authentication": true, "metrics-audience": "" }, /empty/],
    [{ "metrics-authentication": true, "metrics-tls-directory": "a" }, /not an absolute path/],
  ])("are refused where they make no sense: %j", (values, message) => {
    expect(() => readMetricsAuthentication(values)).toThrow(message);
  });
});
