import { connect as connectSocket, Server, type Socket } from "node:net";
import { connect } from "node:tls";
import { afterEach, describe, expect, it } from "@jest/globals";
import { CERTIFICATE_TIMES } from "../../../../../src/platform/process/certificates/decide-certificates.ts";
import { issueLeaf, makeAuthority } from "../../../../../src/platform/process/certificates/issue-certificate.ts";
import type { KeyPair } from "../../../../../src/platform/process/certificates/key-pair.ts";
import { createMutualTls, type MutualTls } from "../../../../../src/platform/process/certificates/mutual-tls.ts";
import type { Logger } from "../../../../../src/platform/process/log.ts";
import { createRecordingLog } from "../../../../fakes/recording-log.ts";
import { waitFor } from "../../../../harness/wait-for.ts";

/** What the kernel does when descriptors run out cannot be had for the asking: its word is given to the real server. */
function failAccept(port: number, reason: string): void {
  const handles = (process as typeof process & { _getActiveHandles(): unknown[] })._getActiveHandles();
  const server = handles.find((handle) => handle instanceof Server && portOf(handle) === port) as Server | undefined;
  if (server === undefined) throw new Error(`nobody listens on port ${port}`);
  server.emit("error", new Error(reason));
}

function portOf(server: Server): number | undefined {
  const address = server.address();
  return address !== null && typeof address === "object" ? address.port : undefined;
}

describe("a port with mutual TLS", () => {
  let open: MutualTls[] = [];
  const makePort = (log: Logger, ...limits: [{ strangers: number; known: number }?]): MutualTls => {
    const made = createMutualTls(log, ...limits);
    open.push(made);
    return made;
  };
  afterEach(() => {
    for (const one of open) one.close();
    open = [];
  });

  it("goes on after connections that could not be accepted, and says each time that there was one", async () => {
    const { log, lines } = createRecordingLog();
    const tls = makePort(log);
    const authority = await makeAuthority("ours", Date.now(), CERTIFICATE_TIMES);
    const pair = await issueLeaf(
      authority,
      { commonName: "localhost", usage: "server" },
      Date.now(),
      CERTIFICATE_TIMES,
    );
    const agent = await issueLeaf(authority, { commonName: "agent", usage: "client" }, Date.now(), CERTIFICATE_TIMES);
    tls.replace({ ...pair, bundlePem: authority.certificatePem });
    let accepted = 0;
    const port = await tls.listen({ host: "127.0.0.1", port: 0 }, (connection) => {
      accepted += 1;
      connection.end();
    });
    failAccept(port, "accept EMFILE");
    failAccept(port, "accept ENFILE");
    const client = connect({
      port,
      host: "127.0.0.1",
      ca: authority.certificatePem,
      cert: agent.certificatePem,
      key: agent.keyPem,
      checkServerIdentity: () => undefined,
    });
    await waitFor("a connection all the same", () => accepted === 1 || undefined);
    client.destroy();
    expect(lines.map(({ err }) => (err as Error | undefined)?.message)).toEqual(["accept EMFILE", "accept ENFILE"]);
  });

  it.each<[string, (ours: KeyPair, others: KeyPair) => Promise<Partial<KeyPair>>, RegExp]>([
    ["without a certificate", async () => ({}), /no good certificate/],
    [
      "with one of another CA",
      (_ours, others) => issueLeaf(others, { commonName: "agent", usage: "client" }, Date.now(), CERTIFICATE_TIMES),
      /no good certificate: (UNABLE_TO|SELF_SIGNED)/,
    ],
  ])("lets nobody in %s, although the connection is encrypted", async (_what, pairOf, reason) => {
    const { log, lines } = createRecordingLog();
    const tls = makePort(log);
    const [ours, others] = [
      await makeAuthority("ours", Date.now(), CERTIFICATE_TIMES),
      await makeAuthority("others", Date.now(), CERTIFICATE_TIMES),
    ];
    const served = await issueLeaf(ours, { commonName: "localhost", usage: "server" }, Date.now(), CERTIFICATE_TIMES);
    tls.replace({ ...served, bundlePem: ours.certificatePem });
    let accepted = 0;
    const port = await tls.listen({ host: "127.0.0.1", port: 0 }, (connection) => {
      accepted += 1;
      connection.end();
    });
    const { certificatePem, keyPem } = await pairOf(ours, others);
    const client = connect({
      port,
      host: "127.0.0.1",
      ca: ours.certificatePem,
      ...(keyPem === undefined ? {} : { cert: certificatePem, key: keyPem }),
      checkServerIdentity: () => undefined,
    });
    client.on("error", () => {}).resume();
    await new Promise((resolve) => client.once("close", resolve));
    expect(accepted).toBe(0);
    expect(lines).toEqual([expect.objectContaining({ reason: expect.stringMatching(reason) })]);
  });

  it("gives no session to resume: each connection shows a certificate, and one whose certificate has expired meanwhile shows it in vain", async () => {
    const { log, lines } = createRecordingLog();
    const tls = makePort(log);
    const ours = await makeAuthority("ours", Date.now(), CERTIFICATE_TIMES);
    const served = await issueLeaf(ours, { commonName: "localhost", usage: "server" }, Date.now(), CERTIFICATE_TIMES);
    const agent = await issueLeaf(ours, { commonName: "agent", usage: "client" }, Date.now(), CERTIFICATE_TIMES);
    tls.replace({ ...served, bundlePem: ours.certificatePem });
    const reused: boolean[] = [];
    const port = await tls.listen({ host: "127.0.0.1", port: 0 }, (connection) => {
      reused.push(connection.isSessionReused());
      connection.end("welcome");
    });
    const connectAs = async (pair: Partial<KeyPair>, session?: Buffer): Promise<Buffer | undefined> => {
      const client = connect({
        port,
        host: "127.0.0.1",
        ca: ours.certificatePem,
        ...(pair.keyPem === undefined ? {} : { cert: pair.certificatePem, key: pair.keyPem }),
        ...(session === undefined ? {} : { session }),
        checkServerIdentity: () => undefined,
      });
      let ticket: Buffer | undefined;
      client.on("session", (given: Buffer) => {
        ticket = given;
      });
      client.on("error", () => {}).resume();
      await new Promise((resolve) => client.once("close", resolve));
      return ticket;
    };
    const session = await connectAs(agent);
    await connectAs(agent, session);
    expect(reused).toEqual([false, false]);
    // As one whose certificate has expired: it has nothing but the session to show.
    await connectAs({}, session);
    expect(reused).toHaveLength(2);
    expect(lines).toEqual([expect.objectContaining({ reason: expect.stringContaining("no good certificate") })]);
  });

  describe("with room for few connections", () => {
    let clients: Socket[] = [];
    afterEach(() => {
      for (const client of clients) client.destroy();
      clients = [];
    });
    const opened = (client: Socket): Socket => {
      clients.push(client);
      // Reading shows its end.
      return client.on("error", () => {}).resume();
    };
    const whichClosed = async (): Promise<readonly boolean[]> => {
      // Sooner than silence ends a connection by itself.
      const limits = { limitMs: 5000 };
      await waitFor("one to be closed", () => clients.some(({ closed }) => closed) || undefined, limits);
      return clients.map(({ closed }) => closed);
    };

    it("closes the first that says nothing, for one more", async () => {
      const port = await makePort(createRecordingLog().log, { strangers: 2, known: 8 }).listen(
        { host: "127.0.0.1", port: 0 },
        () => {},
      );
      for (let count = 1; count <= 3; count += 1)
        await new Promise((resolve) => opened(connectSocket({ port, host: "127.0.0.1" })).once("connect", resolve));
      expect(await whichClosed()).toEqual([true, false, false]);
    });

    it("closes the first of those whom it has let in, for one more", async () => {
      const tls = makePort(createRecordingLog().log, { strangers: 8, known: 2 });
      const ours = await makeAuthority("ours", Date.now(), CERTIFICATE_TIMES);
      const served = await issueLeaf(ours, { commonName: "localhost", usage: "server" }, Date.now(), CERTIFICATE_TIMES);
      const agent = await issueLeaf(ours, { commonName: "agent", usage: "client" }, Date.now(), CERTIFICATE_TIMES);
      tls.replace({ ...served, bundlePem: ours.certificatePem });
      const port = await tls.listen({ host: "127.0.0.1", port: 0 }, (connection) => connection.write("welcome"));
      const pair = { ca: ours.certificatePem, cert: agent.certificatePem, key: agent.keyPem };
      for (let count = 1; count <= 3; count += 1) {
        const client = connect({ port, host: "127.0.0.1", ...pair, checkServerIdentity: () => undefined });
        await new Promise((resolve) => opened(client).once("data", resolve));
      }
      expect(await whichClosed()).toEqual([true, false, false]);
    });
  });

  it("is not there when its address is taken, and says so", async () => {
    const tls = makePort(createRecordingLog().log);
    const port = await tls.listen({ host: "127.0.0.1", port: 0 }, () => {});
    const second = makePort(createRecordingLog().log);
    await expect(second.listen({ host: "127.0.0.1", port }, () => {})).rejects.toMatchObject({ code: "EADDRINUSE" });
  });
});
