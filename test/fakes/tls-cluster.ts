// An API server's TLS side for tests: a certificate authority of its own, a server that wants client certificates when
// asked to, and what it saw of each request's credentials.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { configMap } from "../builders/config-map.ts";

export interface TlsCluster {
  readonly directory: string;
  readonly host: string;
  readonly port: number;
  /** PEM, by file name in `directory`: ca.crt, client.crt, client.key, other-ca.crt. */
  pem(file: string): string;
  /** "authorization header / common name of the client certificate", request by request. */
  readonly seen: string[];
  connections(): number;
  close(): Promise<void>;
}

export async function startTlsCluster(): Promise<TlsCluster> {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-tls-"));
  makeCertificates(directory);
  const pem = (file: string): string => readFileSync(join(directory, file), "utf8");
  const seen: string[] = [];
  let connections = 0;
  const server = createServer(
    {
      ca: pem("ca.crt"),
      cert: pem("server.crt"),
      key: pem("server.key"),
      requestCert: true,
      rejectUnauthorized: false,
    },
    (request, response) => {
      const { subject } = (request.socket as TLSSocket).getPeerCertificate();
      seen.push(`${request.headers.authorization ?? "-"} / ${String(subject?.CN ?? "-")}`);
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(configMap("a", "1")));
    },
  );
  server.on("secureConnection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    directory,
    host: "127.0.0.1",
    port: (server.address() as AddressInfo).port,
    pem,
    seen,
    connections: () => connections,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(directory, { recursive: true });
    },
  };
}

function makeCertificates(directory: string): void {
  const openssl = (...args: string[]): void => void execFileSync("openssl", args, { cwd: directory, stdio: "pipe" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  for (const name of ["ca", "other-ca"])
    openssl(
      "req",
      "-x509",
      ...key,
      "-subj",
      `/CN=${name}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.crt`,
      "-days",
      "2",
    );
  writeFileSync(join(directory, "names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n");
  for (const name of ["server", "client"]) {
    openssl("req", ...key, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.csr`);
    const authority = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2"];
    openssl("x509", "-req", "-in", `${name}.csr`, ...authority, "-out", `${name}.crt`);
  }
}
