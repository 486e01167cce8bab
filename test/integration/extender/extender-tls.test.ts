// The bundled process with mutual TLS, as the component installs it: certificates are made by the operator's own round, and a scheduler's is
// the only one that is heard.
import { mkdtempSync, rmSync } from "node:fs";
import { request as plainRequest } from "node:http";
import { request } from "node:https";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { freePort } from "../../../demo/show/run/free-port.ts";
import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import { NAMESPACES, SECRETS } from "../../../src/contracts/kubernetes/resources.ts";
import { EXTENDER_CERTIFICATE_NAME, EXTENDER_SECRETS, POD_WEBHOOK_SECRETS } from "../../../src/contracts/names.ts";
import { placementLeaves } from "../../../src/operator/webhook/pod-webhook.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { runCertificateRound } from "../../../src/platform/process/certificates/certificate-keeper.ts";
import { CERTIFICATE_TIMES } from "../../../src/platform/process/certificates/decide-certificates.ts";
import { makeAuthority } from "../../../src/platform/process/certificates/issue-certificate.ts";
import { type StoredPair, storedPair } from "../../../src/platform/process/certificates/key-pair.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { makeEmptySecrets } from "../../builders/empty-secrets.ts";
import { type ApiUnderTest, startApiUnderTest } from "../../harness/api-under-test.ts";
import { type BundleProcess, createBundleProcess } from "../../harness/bundle-process.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";

const NAMESPACE = "tidemark-system";
const QUESTION = JSON.stringify({ Pod: { metadata: { name: "any", uid: "any" } }, NodeNames: ["node-1"] });

describeReal("the extender with certificates", ["bundle"], () => {
  const log = createLogger("test", "silent");
  let directory: string;
  let controlPlane: ApiUnderTest;
  let client: ConnectedKubeClient;
  let extender: BundleProcess;
  let port: number;
  let httpPort: number;
  const recorded: string[] = [];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-extender-tls-"));
    controlPlane = await startApiUnderTest({ port: 0, log });
    client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
    const sizes = { nodeName: "node-1", initialSize: "1Gi", fsType: "btrfs" } as const;
    await bootstrap(client, { crdDirectory: "kustomize/foundation/crds", ...sizes });
    if ((await client.get(NAMESPACES, { name: NAMESPACE })) === undefined)
      await client.create("test/namespace", NAMESPACES, {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: NAMESPACE },
      });
    // As the manifests have them.
    const secrets = [...Object.values(EXTENDER_SECRETS), ...Object.values(POD_WEBHOOK_SECRETS)];
    await makeEmptySecrets(client, NAMESPACE, secrets);
    [port, httpPort] = [await freePort(), await freePort()];
    const ports = ["--http-port", String(httpPort), "--extender-port", String(port), "--start-delay", "0s"];
    const where = ["--server", controlPlane.url, "--http-host", "127.0.0.1"];
    extender = createBundleProcess(directory, "extender", ["extender", ...where, ...ports]);
    extender.start();
    extender.firstLine().catch(() => undefined);
  });
  afterAll(async () => {
    await extender?.stop();
    await client?.close();
    await controlPlane?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  async function makeCertificates(): Promise<void> {
    await runCertificateRound({
      client,
      events: { record: (_subject, _type, reason) => recorded.push(reason) },
      namespace: NAMESPACE,
      authoritySecretName: POD_WEBHOOK_SECRETS.authority,
      leaves: placementLeaves(NAMESPACE),
      times: CERTIFICATE_TIMES,
      nowMs: Date.now,
      log,
    });
  }

  async function pairOf(name: string): Promise<StoredPair> {
    const secret = await client.get(SECRETS, { namespace: NAMESPACE, name });
    if (secret === undefined) throw new Error(`no Secret ${name}`);
    return storedPair(secret);
  }

  const readiness = async () => (await fetch(`http://127.0.0.1:${httpPort}/readyz`)).text();

  /** As kube-scheduler does, with a connection of its own; rejects where it is not heard. */
  function ask(trusted: StoredPair, shown?: Pick<StoredPair, "certificatePem" | "keyPem">): Promise<number> {
    const own = shown === undefined ? {} : { cert: shown.certificatePem, key: shown.keyPem };
    const tls = { ca: trusted.bundlePem, servername: EXTENDER_CERTIFICATE_NAME, agent: false as const, ...own };
    return new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, path: "/filter", method: "POST", ...tls }, (response) => {
        response.resume().once("end", () => resolve(response.statusCode ?? 0));
      });
      sent.on("error", reject);
      sent.end(QUESTION);
    });
  }

  it("is not ready before the operator has made its certificate, and is once it has", async () => {
    await waitFor(
      "the caches",
      async () => ((await readiness()).includes("certificate is not made") ? true : undefined),
      {
        otherwise: () => extender.log(),
      },
    );
    await makeCertificates();
    await waitFor("a ready extender", async () => ((await readiness()) === "ok\n" ? true : undefined), {
      otherwise: () => extender.log(),
    });
    // What was empty was not broken: nobody is warned.
    expect(recorded).toEqual([]);
  });

  it("hears a scheduler by its certificate, and nobody else", async () => {
    const scheduler = await pairOf(EXTENDER_SECRETS.scheduler);
    expect(await ask(scheduler, scheduler)).toBe(200);
    await expect(ask(scheduler)).rejects.toThrow();
    for (const name of [EXTENDER_SECRETS.extender, POD_WEBHOOK_SECRETS.server])
      await expect(ask(scheduler, await pairOf(name))).rejects.toThrow();
    await expect(ask(scheduler, await makeAuthority("other", Date.now(), CERTIFICATE_TIMES))).rejects.toThrow();
    const plain = new Promise((resolve, reject) => {
      plainRequest({ host: "127.0.0.1", port, path: "/filter", method: "POST" }, resolve)
        .on("error", reject)
        .end(QUESTION);
    });
    await expect(plain).rejects.toThrow();
  });

  it("hears it while 5,000 connections are silent before their handshakes", async () => {
    const scheduler = await pairOf(EXTENDER_SECRETS.scheduler);
    const strangers: Socket[] = [];
    for (let opened = 0; opened < 5000; opened += 250) {
      const silent = Array.from({ length: 250 }, () => {
        const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" });
        strangers.push(socket);
        return new Promise<void>((resolve) => {
          socket.once("connect", resolve).on("error", () => resolve());
        });
      });
      expect(await ask(scheduler, scheduler)).toBe(200);
      await Promise.all(silent);
    }
    expect(await ask(scheduler, scheduler)).toBe(200);
    for (const socket of strangers) socket.destroy();
  });

  it("shows the certificate that its Secret has, without a restart", async () => {
    const before = await pairOf(EXTENDER_SECRETS.scheduler);
    for (const name of [...Object.values(EXTENDER_SECRETS), ...Object.values(POD_WEBHOOK_SECRETS)]) {
      const secret = await client.get(SECRETS, { namespace: NAMESPACE, name });
      if (secret !== undefined) await client.update("test/secret", SECRETS, { ...secret, data: {} });
    }
    await makeCertificates();
    const after = await pairOf(EXTENDER_SECRETS.scheduler);
    await waitFor("the new CA to be the one", async () => ((await ask(after, after)) === 200 ? true : undefined));
    await expect(ask(before, before)).rejects.toThrow();
  });
});
